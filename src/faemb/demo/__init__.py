"""A demonstration on synthetic data: pictures of a gallery, and rendered photographs of them as visitors take them."""

from faemb.demo.prints import photographs, pictures
from faemb.demo.run import DemoResult, run_demo
from faemb.demo.views import lamp_light, render_views

__all__ = ["DemoResult", "lamp_light", "photographs", "pictures", "render_views", "run_demo"]
