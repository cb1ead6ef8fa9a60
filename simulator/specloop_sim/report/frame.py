"""The two sheets that every picture is drawn on, so that its letters stay readable: wide for screens and print, narrow
for phones.  The page shows one of them."""

from dataclasses import dataclass

from specloop_sim.report.scale import Scale
from specloop_sim.report.svg import element


@dataclass(frozen=True, slots=True)
class Sheet:
    """Width and margins in user units, shared by all pictures of a sheet, so that their time axes agree."""

    name: str
    width: float
    left: float
    right: float
    """Right edge of the plot."""
    font: float
    points: int
    """Most points of a line: about one a pixel."""
    time_labels: int

    def time(self, seconds: float) -> Scale:
        """The time axis."""
        return Scale(0.0, seconds, self.left, self.right)

    def picture(self, height: float, label: str, *content: str, **attributes: str | float | None) -> str:
        """A picture that is one image to a screen reader, with a label that says what there is to see."""
        return element(
            "svg",
            *content,
            class_=f"sheet {self.name}",
            role="img",
            aria_label=label,
            view_box=f"0 0 {self.width:g} {height:g}",
            xmlns=NAMESPACE,
            **attributes,
        )


NAMESPACE = "http://www.w3.org/2000/svg"
WIDE = Sheet("wide", 880, 52, 868, 13, 600, 9)
NARROW = Sheet("narrow", 400, 44, 394, 13, 280, 4)
SHEETS = (WIDE, NARROW)
