"""Long work: what it does, how far it is, and how it is cancelled."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Path, Response

from faemb.collection import Collection
from faemb.errors import Fault
from faemb.runtime import UNKNOWN, Progress
from faemb.web import schema
from faemb.web.changing import add_folder, relearn, require_allowed, update
from faemb.web.jobs import Job, Outcome
from faemb.web.problems import Problem, sentence, text
from faemb.web.service import Shared, Writable

router = APIRouter(prefix="/api", tags=["jobs"])

JobId = Annotated[str, Path(description="Id from the answer to `POST /api/jobs`.")]


@router.post("/jobs", status_code=202)
async def start(service: Shared, changes: Writable, request: schema.JobRequest, response: Response) -> schema.Job:
    """Start long work, which goes on after the answer."""
    if request.kind == "add":
        folder = request.folder
        if not folder:
            raise Problem(422, "folder is missing; a job of the kind add needs a folder of the server.")
        others = changes.uploads, *service.settings.folders
        allowed = await service.looking.do(lambda photos: require_allowed(photos, folder, others))

        def add(photos: Collection, progress: Progress) -> Outcome:
            return add_folder(photos, allowed, progress)

        job = changes.start("add", add)
    elif request.folder is not None:
        raise Problem(422, f"folder is given; a job of the kind {request.kind} takes none.")
    else:
        job = changes.start(request.kind, update if request.kind == "update" else relearn)
    response.headers["Location"] = address(job)
    return job_answer(job)


@router.get("/jobs")
async def jobs(service: Shared) -> schema.JobList:
    """All jobs that wait or run, and the last ones that have ended; the newest first."""
    return schema.JobList(jobs=[job_answer(job) for job in service.jobs.all()])


@router.get("/jobs/{id}")
async def job(service: Shared, id: JobId) -> schema.Job:
    """How far a job is."""
    return job_answer(service.jobs.get(id))


@router.delete("/jobs/{id}")
async def cancel(service: Shared, id: JobId) -> schema.Job:
    """Cancel a job: one that runs ends at its next step, and what it has stored stays."""
    job = service.jobs.get(id)
    job.cancel()
    return job_answer(job)


def address(job: Job) -> str:
    return f"/api/jobs/{job.id}"


def job_answer(job: Job) -> schema.Job:
    left, outcome = job.seconds_left, job.outcome
    return schema.Job(
        id=job.id,
        kind=job.kind,
        state=job.state,
        stage=job.stage,
        done=job.done,
        total=None if job.total == UNKNOWN else job.total,
        seconds=round(job.seconds, 1),
        seconds_left=None if left is None else round(left, 1),
        result=None if outcome is None else text(outcome.result),
        failed=unusable(outcome.failed if outcome is not None else ()),
    )


def unusable(faults: Iterable[Fault]) -> list[schema.Unusable]:
    return [schema.Unusable(name=text(fault.path), reason=text(sentence(fault))) for fault in faults]
