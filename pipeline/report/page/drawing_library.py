"""The JavaScript that draws: Vega, Vega-Lite and vega-embed as one script, from the package vl-convert-python.

It lies inside that package, so nothing is fetched, now or when the page is opened.
"""

from __future__ import annotations

import functools


@functools.cache
def drawing_library() -> str:
    """Return the script; it defines ``vegaEmbed`` on the window."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version="6.4"))
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
