"""The kinds of input, by name."""

from tools.fuzz.kind import Kind
from tools.fuzz.kinds.caches import Caches
from tools.fuzz.kinds.collections import Catalogues, Indexes
from tools.fuzz.kinds.feature_files import FeatureFiles
from tools.fuzz.kinds.ground_truths import GroundTruths
from tools.fuzz.kinds.maps import Maps
from tools.fuzz.kinds.models import Models
from tools.fuzz.kinds.networks import Networks
from tools.fuzz.kinds.pictures import Pictures
from tools.fuzz.kinds.runs import Runs
from tools.fuzz.kinds.urls import Urls

_ALL: tuple[Kind, ...] = (
    *(
        Pictures(),
        Models(),
        FeatureFiles(),
        Catalogues(),
        Indexes(),
        Maps(),
        Networks(),
        GroundTruths(),
        Runs(),
        Caches(),
    ),
    Urls(),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
