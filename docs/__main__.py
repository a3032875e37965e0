"""Write the generated pages anew: `python -m docs`."""

from pathlib import Path

from docs.blocks import printed_anew
from docs.commands import commands_page
from docs.completion import completion_files
from docs.counterparts import counterparts_page
from docs.deployed import FOLDER as DEPLOYED
from docs.deployed import deployed
from docs.exit_codes import exit_codes_page
from docs.expectations import expectations_page
from docs.explain import explain_page
from docs.man import man_pages
from docs.rules import rules_page
from docs.shown import shown_page
from docs.stacks import stacks_page

FOLDER = Path(__file__).parent
README = FOLDER.parent / "README.md"

MAN = FOLDER.parent / "man"
COMPLETION = FOLDER.parent / "completion"

PAGES = {
    "rules.md": rules_page,
    "shown.md": shown_page,
    "commands.md": commands_page,
    "explain.md": explain_page,
    "stacks.md": stacks_page,
    "expectations.md": expectations_page,
    "exit_codes.md": exit_codes_page,
    "counterparts.md": counterparts_page,
}

WRITTEN = (README, *(path for path in sorted(FOLDER.glob("*.md")) if path.name not in PAGES))
"""By hand, but for what commands print."""

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(name)
    for written in WRITTEN:
        text = written.read_text(encoding="utf-8")
        written.write_text(printed_anew(written.name, text), encoding="utf-8")
    for path in sorted(DEPLOYED.glob("*.md")):
        path.write_text(deployed(path.name, path.read_text(encoding="utf-8")), encoding="utf-8")
    MAN.mkdir(exist_ok=True)
    for name, text in man_pages().items():
        (MAN / name).write_text(text, encoding="utf-8")
    COMPLETION.mkdir(exist_ok=True)
    for name, text in completion_files().items():
        (COMPLETION / name).write_text(text, encoding="utf-8")
