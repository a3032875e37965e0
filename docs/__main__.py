"""Write the generated pages anew: `python -m docs`."""

from pathlib import Path

from docs.commands import commands_page
from docs.explain import explain_page
from docs.readme import readme
from docs.rules import rules_page
from docs.stacks import stacks_page

FOLDER = Path(__file__).parent
README = FOLDER.parent / "README.md"

PAGES = {
    "rules.md": rules_page,
    "commands.md": commands_page,
    "explain.md": explain_page,
    "stacks.md": stacks_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(name)
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
