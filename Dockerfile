# A server for the collection /data/photos.faemb; docs/serving.md says how it is run.
# BASE: any image with Python 3.11 to 3.13 and venv, such as python:3.13-slim of your own registry.
ARG BASE=python:3.13-slim

FROM $BASE AS build
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN python -m venv /opt/faemb && /opt/faemb/bin/pip install --no-cache-dir "/source[web,faiss]"

FROM $BASE
COPY --from=build /opt/faemb /opt/faemb
RUN useradd --system --uid 10001 --no-create-home faemb
USER 10001
ENV PATH=/opt/faemb/bin:$PATH PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
ENTRYPOINT ["faemb", "serve"]
CMD ["/data/photos.faemb", "--host", "0.0.0.0"]
