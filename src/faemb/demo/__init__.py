"""A demonstration: visitors' photographs of the pictures of a gallery, which are drawn and rendered here."""

from faemb.demo.prints import photographs, pictures
from faemb.demo.run import DemoResult, run_demo
from faemb.demo.views import lamp_light, render_views

__all__ = ["DemoResult", "lamp_light", "photographs", "pictures", "render_views", "run_demo"]
