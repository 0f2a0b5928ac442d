"""The first steps of a new user, from the wheel to the report. Run it by `make newcomer`.

Builds the wheel, installs it with every extra into a fresh environment, runs each block of the
README in an empty folder, then examples/demo.py, and opens the report in Chromium. Screenshots of
the report and of the demo's page (light, dark, narrow) are written to a folder.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCTEST = """
import doctest, sys
flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
failed, tried = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags)
print(f"{tried} lines of Python")
sys.exit(failed > 0 or tried == 0)
"""
VIEWS = {
    "light": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("screenshots", type=Path, help="folder for screenshots")
    screenshots = parser.parse_args().screenshots.resolve()
    screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        place = Path(folder)
        with step("build the wheel"):
            wheel = build_wheel(place / "wheel")
        with step("install it with every extra into a fresh environment"):
            python = install(wheel, place / "environment")
        desk = place / "desk"
        desk.mkdir()
        with step("run README"):
            run_readme(python, desk)
        with step("examples/demo.py"):
            shown = run([python, ROOT / "examples" / "demo.py"], desk)
            print(shown[shown.index("The five systems") :])
        report = Path(shown.splitlines()[-1])
        with step("open the pages in Chromium"):
            open_pages([report, report.with_name("demo.html")], screenshots)


@contextmanager
def step(title):
    print(f"== {title}", flush=True)
    start = time.perf_counter()
    yield
    print(f"   {time.perf_counter() - start:.0f} s", flush=True)


def run(words, folder):
    """Run a command as a new user would, without access to this checkout."""
    hidden = ("PYTHONPATH", "BAGWISE_DATA", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PATH"] = f"{Path(words[0]).parent}{os.pathsep}{environment['PATH']}"
    environment["COLUMNS"] = "80"
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{shlex.join(map(str, words))} ended with {done.returncode}")
    return done.stdout.rstrip()


def build_wheel(folder):
    words = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", folder, ROOT]
    run(words, ROOT)
    (wheel,) = folder.iterdir()
    print(f"{wheel.name}, {wheel.stat().st_size / 1e3:.0f} kB")
    return wheel


def install(wheel, folder):
    run([sys.executable, "-m", "venv", folder], ROOT)
    python = folder / "bin" / "python"
    run([python, "-m", "pip", "install", "-qq", f"bagwise[all] @ {wheel.as_uri()}"], folder)
    where = run([python, "-c", "import bagwise; print(bagwise.__file__)"], folder)
    assert where.startswith(str(folder)), where
    return python


def run_readme(python, folder):
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, flags=re.DOTALL)
    lines = folder / "readme.txt"
    lines.write_text("\n".join(block for language, block in blocks if language == "pycon"))
    print(run([python, "-c", DOCTEST, lines], folder))
    console = [block for language, block in blocks if language == "console"]
    for line in "".join(console).splitlines():
        command = line.removeprefix("$ ").split("#")[0].strip()
        program, *words = shlex.split(command)
        if program == "bagwise":  # the other commands need a checkout
            print(f"$ {command}", flush=True)
            run([python.parent / program, *words], folder)


def open_pages(pages, folder):
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as manager:
        browser = manager.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for page in pages:
            for name, view in VIEWS.items():
                context = browser.new_context(**view)
                tab, complaints = context.new_page(), []
                tab.on("console", lambda message, c=complaints: c.append(message.text))
                tab.on("pageerror", lambda error, c=complaints: c.append(str(error)))
                tab.goto(page.as_uri())
                wide = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, f"{page.name} is {wide} pixels too wide ({name})"
                assert not complaints, complaints
                path = folder / f"{page.stem}-{name}.png"
                tab.screenshot(path=path, full_page=name == "light")
                print(path, flush=True)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
