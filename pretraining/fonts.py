"""List the print fonts of the pretraining, from matplotlib and Debian packages.

`fonts.txt` lists the font files relative to /usr/share/fonts, `font_packages.txt` their packages. The fonts were chosen
for variety of design, without script, brush and casual faces that imitate handwriting. Also left out are relatives of
the families held out for the domain ``print``: Times designs (Liberation Serif, Nimbus Roman, FreeSerif) and Computer
Modern designs.
"""

from pathlib import Path

from pipeline.datasets import digits

MATPLOTLIB_FONTS = tuple(  # the DejaVu family
    f"DejaVu{family}{cut}.ttf"
    for family, slanted in (("Sans", "Oblique"), ("SansMono", "Oblique"), ("Serif", "Italic"))
    for cut in ("", "-Bold", f"-{slanted}", f"-Bold{slanted}")
)
DEBIAN_FONTS = Path("/usr/share/fonts")
LIST = Path(__file__).with_name("fonts.txt")
PACKAGES = Path(__file__).with_name("font_packages.txt").read_text().split()


def pretraining_fonts(*, matplotlib_only: bool = False) -> list[Path]:
    """Return all font files of the pretraining in a fixed order; exit if one is missing."""
    bundled = [digits.font_path(name) for name in MATPLOTLIB_FONTS]
    if matplotlib_only:
        return bundled
    debian = [DEBIAN_FONTS / line for line in LIST.read_text().splitlines() if line]
    missing = [path for path in debian if not path.is_file()]
    if missing:
        raise SystemExit(
            f"{len(missing)} of the {len(debian)} fonts in {LIST.name} are not installed, "
            f"the first is {missing[0]}.\n"
            f"Install them with: apt-get install --no-install-recommends {' '.join(PACKAGES)}\n"
            "or train with --matplotlib-fonts-only (weaker weights than the ones shipped)."
        )
    return bundled + debian
