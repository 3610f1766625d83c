#!/usr/bin/env python3
"""Builds the release artefacts from what scripts/release.sh has compiled: archives, packages, SBOM, licences, checksums.

Builds are reproducible: entries are sorted, have the owner root and the time of SOURCE_DATE_EPOCH.

  --stage FOLDER   bin/TARGET/fermata and so/phpVERSION-TARGET/fermata.so, as linked; VERSION+zts is a PHP with threads
  --dist FOLDER    folder of the artefacts; its previous content is removed
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Maximum size of the stripped extension in bytes. It is limited because PIE downloads the extension, and users copy it into images.
EXTENSION_BYTES_MAX = 33 * 256 * 1024
# glibc version of Debian 12. An artefact that needs a newer glibc would not start there.
GLIBC_MAX = (2, 36)
ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
# Prefix of the binutils commands for each architecture.
TOOLS = {"x86_64": "", "arm64": "aarch64-linux-gnu-"}
# Name of the extension directory in Debian's packages of each PHP version.
PHP_APIS = {"8.2": "20220829", "8.3": "20230831", "8.4": "20240924", "8.5": "20250925"}
# Files of a crate that contain its licence text.
LICENCE = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.I)
NO_LICENCE = (".rs", ".html", ".json", ".toml", ".py")
MAINTAINER = "Fermata maintainers <fermata-php@users.noreply.github.com>"
HOMEPAGE = "https://github.com/fermata-php/fermata"


def fail(message: str) -> None:
    sys.exit(f"pack: {message}")


def run(*command: str, **options) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def version() -> str:
    """Returns the version of the command and the extension. Fails if the Composer package does not accept this version."""
    cargo = re.search(r'^\[workspace\.package\]\n(?:.*\n)*?version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.M)
    header = re.search(r'PHP_FERMATA_VERSION "([^"]+)"', (ROOT / "ext/php_fermata.h").read_text())
    if cargo is None or header is None or cargo[1] != header[1]:
        fail("Cargo.toml and ext/php_fermata.h name different versions")
    major, minor = cargo[1].split(".")[:2]
    composer = json.loads((ROOT / "php/composer.json").read_text())["conflict"]["ext-fermata"]
    if composer != f"<{major}.{minor}.0 || >={major}.{int(minor) + 1}.0":
        fail(f"php/composer.json takes other extensions than {major}.{minor}: {composer}")
    return cargo[1]


def glibc_of(program: Path, architecture: str) -> tuple[int, ...]:
    """Returns the newest glibc version that a binary needs. Returns () if the binary needs no glibc."""
    objdump = f"{TOOLS[architecture]}objdump"
    names = re.findall(r"GLIBC_(\d+)\.(\d+)", run(objdump, "-T", str(program), stderr=subprocess.DEVNULL))
    return max((tuple(map(int, name)) for name in names), default=())


def strip(source: Path, target: Path, symbols: Path, architecture: str) -> None:
    """Writes a stripped copy of `source` to `target`, and its debug symbols to `symbols`, where debuggers find them."""
    objcopy = f"{TOOLS[architecture]}objcopy"
    target.parent.mkdir(parents=True, exist_ok=True)
    symbols.parent.mkdir(parents=True, exist_ok=True)
    run(objcopy, "--only-keep-debug", "--compress-debug-sections", str(source), str(symbols))
    run(objcopy, "--strip-unneeded", f"--add-gnu-debuglink={symbols}", str(source), str(target))
    target.chmod(0o755)
    symbols.chmod(0o644)


class Sources:
    """The crates that are compiled into the command and the extension."""

    def __init__(self) -> None:
        cargo = shutil.which("cargo") or str(Path.home() / ".cargo/bin/cargo")
        metadata = json.loads(
            run(cargo, "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu", cwd=ROOT)
        )
        packages = {package["id"]: package for package in metadata["packages"]}
        nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
        queue = [id for id, package in packages.items() if package["name"] in ("fermata-cli", "fermata-ffi")]
        reached = set()
        while queue:
            id = queue.pop()
            if id in reached:
                continue
            reached.add(id)
            for dependency in nodes[id]["deps"]:
                # Include only normal dependencies, because artefacts contain neither build scripts nor tests.
                if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                    queue.append(dependency["pkg"])
        self.packages = sorted((packages[id] for id in reached), key=lambda it: (it["name"], it["version"]))
        self.depends = {
            self.reference(packages[id]): sorted(
                self.reference(packages[it["pkg"]]) for it in nodes[id]["deps"] if it["pkg"] in reached
            )
            for id in reached
        }

    @staticmethod
    def reference(package: dict) -> str:
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def sbom(self, release: str, epoch: int) -> dict:
        lock = (ROOT / "Cargo.lock").read_text()
        components = []
        for package in self.packages:
            component = {
                "type": "library",
                "bom-ref": self.reference(package),
                "name": package["name"],
                "version": package["version"],
                "purl": self.reference(package),
            }
            if package["license"]:
                component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
            if package["repository"]:
                component["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
            named = rf'name = "{re.escape(package["name"])}"\nversion = "{re.escape(package["version"])}"'
            entry = named + r'\n(?:.*\n)*?checksum = "([0-9a-f]+)"'
            checksum = re.search(entry, lock) if package["source"] else None
            if checksum:
                component["hashes"] = [{"alg": "SHA-256", "content": checksum[1]}]
            components.append(component)
        bom = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
                "component": {
                    "type": "application",
                    "bom-ref": f"pkg:github/fermata-php/fermata@{release}",
                    "name": "fermata",
                    "version": release,
                    "licenses": [{"license": {"id": "MIT"}}],
                },
            },
            "components": components,
            "dependencies": [{"ref": ref, "dependsOn": on} for ref, on in sorted(self.depends.items())],
        }
        digest = hashlib.sha256(json.dumps(bom, sort_keys=True).encode()).hexdigest()
        bom["serialNumber"] = f"urn:uuid:{uuid.UUID(digest[:32], version=4)}"
        return bom

    def licences(self) -> str:
        """Returns the licence texts of all included crates and libraries, each text once, with the names of its packages."""
        texts: dict[str, list[str]] = {}
        for package in self.packages:
            if not package["source"]:
                continue
            folder = Path(package["manifest_path"]).parent
            files = sorted(
                it for it in folder.rglob("*") if it.is_file() and LICENCE.match(it.name) and it.suffix not in NO_LICENCE
            )
            name = f"{package['name']} {package['version']} ({package['license']})"
            if not files:
                declared = f"The package has no text of its licence; it is declared as {package['license']}.\n"
                texts.setdefault(declared, []).append(name)
            for file in files:
                texts.setdefault(file.read_text(errors="replace").strip() + "\n", []).append(f"{name}, {file.relative_to(folder)}")
        rust = Path(run("rustc", "--print", "sysroot").strip()) / "share/doc/rust"
        places = (rust / "licenses/MIT.txt", rust / "LICENSE-MIT", Path("/usr/share/doc/rustc/copyright"))
        standard = [it.read_text(errors="replace").strip() + "\n" for it in places if it.exists()]
        if standard:
            texts.setdefault(standard[0], []).append("the standard library of Rust (MIT OR Apache-2.0)")
        musl = Path("/usr/share/doc/musl/copyright")
        if musl.exists():
            text = musl.read_text(errors="replace").strip() + "\n"
            texts.setdefault(text, []).append("musl, in the command that needs no C library (MIT)")
        parts = ["Fermata is under the MIT licence, see LICENSE. It contains the following.\n"]
        parts += [f"{'=' * 100}\n" + "\n".join(names) + f"\n{'-' * 100}\n{text}" for text, names in texts.items()]
        return "\n".join(parts)


class Packer:
    def __init__(self, stage: Path, dist: Path, epoch: int) -> None:
        self.stage, self.dist, self.epoch, self.release = stage, dist, epoch, version()
        shutil.rmtree(dist, ignore_errors=True)
        dist.mkdir(parents=True)
        self.work = Path(tempfile.mkdtemp(prefix="fermata-pack-"))
        self.notices: dict[str, bytes] = {}

    def date(self, info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime, info.uid, info.gid, info.uname, info.gname = self.epoch, 0, 0, "root", "root"
        info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
        return info

    def tar(self, folder: Path, prefix: str) -> bytes:
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for file in sorted(folder.rglob("*")):
                archive.add(file, f"{prefix}{file.relative_to(folder)}", recursive=False, filter=self.date)
        return gzip.compress(plain.getvalue(), 9, mtime=0)

    def archive(self, name: str, folder: Path) -> None:
        (self.dist / f"{name}.tar.gz").write_bytes(self.tar(folder, f"{name}/"))

    def zip(self, name: str, files: dict[str, bytes]) -> None:
        moment = time.gmtime(self.epoch)[:6]
        with zipfile.ZipFile(self.dist / name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path, content in sorted(files.items()):
                info = zipfile.ZipInfo(path, moment)
                info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
                archive.writestr(info, content)

    def write(self, folder: Path, path: str, content: bytes | str, mode: int = 0o644) -> None:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(mode)

    def copy_notices(self, folder: Path) -> None:
        for name, content in self.notices.items():
            self.write(folder, name, content)

    def command_files(self, folder: Path, program: Path) -> None:
        """Writes the command's man pages and shell completions. `program` generates them, so it must run on this machine."""
        pages = self.work / "man"
        pages.mkdir(exist_ok=True)
        run(str(program), "man", str(pages))
        for page in pages.iterdir():
            self.write(folder, f"man/{page.name}", page.read_bytes())
        for shell, name in (("bash", "fermata.bash"), ("zsh", "_fermata"), ("fish", "fermata.fish")):
            self.write(folder, f"completions/{name}", run(str(program), "completions", shell))

    def deb(self, package: str, architecture: str, control: str, files: Path, scripts: dict[str, str], about: str) -> None:
        """Writes a Debian package of a tree of files. `control` contains Section, Depends and Description."""
        document = files / "usr/share/doc" / package
        moment = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(self.epoch))
        changes = f"{package} ({self.release}) unstable; urgency=medium\n\n  * {about}\n\n"
        changes += f" -- {MAINTAINER}  {moment}\n"
        self.write(document, "changelog.gz", gzip.compress(changes.encode(), 9, mtime=0))
        rights = (
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
            f"Source: {HOMEPAGE}\n\nFiles: *\nCopyright: {self.copyright_line()}\nLicense: Expat\n"
            + "".join(f" {line or '.'}\n" for line in self.notices["LICENSE"].decode().splitlines()[4:])
            + "\nComment:\n The Rust libraries inside are named, with their licences, in THIRD-PARTY.gz beside this file.\n"
        )
        self.write(document, "copyright", rights)
        self.write(document, "THIRD-PARTY.gz", gzip.compress(self.notices["THIRD-PARTY-LICENSES"], 9, mtime=0))
        self.write(document, "sbom.cdx.json.gz", gzip.compress(self.notices["sbom.cdx.json"], 9, mtime=0))
        paths = [it for it in sorted(files.rglob("*")) if it.is_file()]
        own = self.work / f"control-{package}-{architecture}"
        size = sum((it.stat().st_size + 1023) // 1024 for it in paths)
        fields = f"Package: {package}\nVersion: {self.release}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n"
        self.write(own, "control", f"{fields}Installed-Size: {size}\nHomepage: {HOMEPAGE}\nPriority: optional\n{control}")
        sums = "".join(f"{hashlib.md5(it.read_bytes()).hexdigest()}  {it.relative_to(files)}\n" for it in paths)
        self.write(own, "md5sums", sums)
        conffiles = [f"/{it.relative_to(files)}\n" for it in paths if it.relative_to(files).parts[0] == "etc"]
        if conffiles:
            self.write(own, "conffiles", "".join(conffiles))
        for name, text in scripts.items():
            self.write(own, name, text, 0o755)
        members = [
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", self.tar(own, "./")),
            ("data.tar.gz", self.tar(files, "./")),
        ]
        content = b"!<arch>\n"
        for name, data in members:
            head = f"{name:<16}{self.epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
            content += head + data + b"\n" * (len(data) % 2)
        (self.dist / f"{package}_{self.release}_{architecture}.deb").write_bytes(content)

    def copyright_line(self) -> str:
        line = next((it for it in self.notices["LICENSE"].decode().splitlines() if it.startswith("Copyright")), "")
        return re.sub(r"^Copyright (\(c\) )?", "", line)

    def deb_of_command(self, program: Path, target: str) -> None:
        architecture = ARCHITECTURES[target.split("-")[0]]
        files = self.work / f"deb-fermata-{architecture}"
        self.write(files, "usr/bin/fermata", program.read_bytes(), 0o755)
        for page in (self.work / "man").iterdir():
            self.write(files, f"usr/share/man/man1/{page.name}.gz", gzip.compress(page.read_bytes(), 9, mtime=0))
        tree = self.work / "native"
        for source, place in (
            ("completions/fermata.bash", "usr/share/bash-completion/completions/fermata"),
            ("completions/_fermata", "usr/share/zsh/vendor-completions/_fermata"),
            ("completions/fermata.fish", "usr/share/fish/vendor_completions.d/fermata.fish"),
        ):
            self.write(files, place, (tree / source).read_bytes())
        for unit in ("fermata@.service", "fermata-edge.service"):
            self.write(files, f"lib/systemd/system/{unit}", (ROOT / "packaging/systemd" / unit).read_bytes())
        self.write(files, "etc/logrotate.d/fermata", (ROOT / "packaging/logrotate/fermata").read_bytes())
        glibc = ".".join(map(str, glibc_of(program, target.split("-")[0])))
        control = (
            f"Section: web\nDepends: libc6 (>= {glibc}), libgcc-s1 (>= 4.2)\n"
            "Recommends: php-cli, php-fermata\nSuggests: logrotate\n"
            "Description: native real-time server for PHP: its command\n"
            " Fermata serves HTTP, Server-Sent Events and WebSockets out of PHP programs\n"
            " and holds clients without a PHP process for each.\n"
            " .\n"
            " This package has the command fermata: it starts and watches servers, is an\n"
            " edge in front of other backends as Pushpin is, publishes, and puts servers\n"
            " under load.\n"
        )
        scripts = {name: (ROOT / f"packaging/debian/fermata.{name}").read_text() for name in ("postinst", "postrm")}
        self.deb("fermata", architecture, control, files, scripts, "A release.")

    def deb_of_extension(self, extension: Path, php: str, target: str) -> None:
        architecture = ARCHITECTURES[target.split("-")[0]]
        files = self.work / f"deb-php{php}-{architecture}"
        self.write(files, f"usr/lib/php/{PHP_APIS[php]}/fermata.so", extension.read_bytes())
        self.write(files, f"etc/php/{php}/mods-available/fermata.ini", (ROOT / "packaging/debian/fermata.ini").read_bytes())
        glibc = ".".join(map(str, glibc_of(extension, target.split("-")[0])))
        control = (
            f"Section: php\nPre-Depends: php-common (>= 2:69~)\n"
            f"Depends: libc6 (>= {glibc}), libgcc-s1 (>= 4.2), php{php}-common, phpapi-{PHP_APIS[php]}\n"
            f"Recommends: fermata, php{php}-cli, php{php}-opcache\nProvides: php-fermata\n"
            "Description: native real-time server for PHP: the extension\n"
            " Fermata serves HTTP, Server-Sent Events and WebSockets out of PHP programs\n"
            " and holds clients without a PHP process for each.\n"
            " .\n"
            f" This package has the extension for PHP {php}.\n"
        )
        sources = {name: ROOT / f"packaging/debian/php.{name}" for name in ("postinst", "prerm", "postrm")}
        scripts = {name: source.read_text().replace("@VERSION@", php) for name, source in sources.items()}
        self.deb(f"php{php}-fermata", architecture, control, files, scripts, f"A release, for PHP {php}.")

    def check_glibc(self, program: Path, target: str) -> None:
        glibc = glibc_of(program, target.split("-")[0])
        if target.endswith("musl") and glibc:
            fail(f"{program} asks for glibc {glibc}")
        if glibc > GLIBC_MAX:
            fail(f"{program} asks for glibc {'.'.join(map(str, glibc))}, newer than that of Debian 12")

    def check_unwinding(self, program: Path) -> None:
        """Checks that the file has unwind tables. Without them a panic ends the worker with all its connections."""
        if "GNU_EH_FRAME" not in run("readelf", "--program-headers", "--wide", str(program)):
            fail(f"{program} has no table to unwind the stack with; link it with --eh-frame-hdr")

    def pack(self) -> None:
        sources = Sources()
        self.notices = {
            "LICENSE": (ROOT / "LICENSE").read_bytes(),
            "THIRD-PARTY-LICENSES": sources.licences().encode(),
            "sbom.cdx.json": (json.dumps(sources.sbom(self.release, self.epoch), indent=1) + "\n").encode(),
        }
        stripped = self.work / "stripped"
        symbols = self.work / "symbols"
        commands = {}
        for source in sorted(self.stage.glob("bin/*/fermata")):
            target = source.parent.name
            self.check_glibc(source, target)
            commands[target] = stripped / "bin" / target / "fermata"
            strip(source, commands[target], symbols / target / "fermata.debug", target.split("-")[0])
        extensions = {}
        for source in sorted(self.stage.glob("so/*/fermata.so")):
            php, target = source.parent.name.removeprefix("php").split("-", 1)
            self.check_glibc(source, target)
            self.check_unwinding(source)
            own = stripped / "so" / source.parent.name / "fermata.so"
            strip(source, own, symbols / source.parent.name / "fermata.so.debug", target.split("-")[0])
            # A shared library needs no execute permission.
            own.chmod(0o644)
            if own.stat().st_size > EXTENSION_BYTES_MAX:
                fail(f"{source} has {own.stat().st_size} bytes without symbols, more than {EXTENSION_BYTES_MAX}")
            extensions[php, target] = own

        native = self.work / "native"
        self.command_files(native, commands["x86_64-glibc"])
        self.copy_notices(native)
        for target, program in commands.items():
            folder = self.work / f"command-{target}"
            shutil.copytree(native, folder)
            self.write(folder, "fermata", program.read_bytes(), 0o755)
            self.archive(f"fermata-{self.release}-linux-{target}", folder)
            if target.endswith("glibc"):
                self.deb_of_command(program, target)
        for (php, target), extension in extensions.items():
            architecture, libc = target.split("-")
            inside = {"fermata.so": extension.read_bytes(), **self.notices}
            php, has_threads, threads = php.partition("+")
            suffix = f"-{threads}" if has_threads else ""
            self.zip(f"php_fermata-{self.release}_php{php}-{architecture}-linux-{libc}{suffix}.zip", inside)
            if not has_threads and libc == "glibc":  # Debian has no packages of PHP with threads, and none of PHP for another libc.
                self.deb_of_extension(extension, php, target)
            # Add an archive with the command and the extension, for users who copy the two files.
            folder = self.work / f"both-{php}-{target}{suffix}"
            shutil.copytree(native, folder)
            self.write(folder, "fermata", commands[target].read_bytes(), 0o755)
            self.write(folder, "fermata.so", extension.read_bytes())
            self.archive(f"fermata-{self.release}-php{php}-linux-{target}{suffix}", folder)
        if symbols.exists():
            self.archive(f"fermata-{self.release}-debug-symbols", symbols)
        for name, content in self.notices.items():
            (self.dist / name).write_bytes(content)
        files = sorted(it for it in self.dist.iterdir() if it.name != "SHA256SUMS")
        sums = [f"{hashlib.sha256(it.read_bytes()).hexdigest()}  {it.name}\n" for it in files]
        (self.dist / "SHA256SUMS").write_text("".join(sums))
        shutil.rmtree(self.work)
        for it in files:
            print(f"{it.stat().st_size:>10}  {it.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True)
    parser.add_argument("--dist", type=Path, required=True)
    arguments = parser.parse_args()
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        fail("SOURCE_DATE_EPOCH is not set; scripts/release.sh sets it")
    Packer(arguments.stage.resolve(), arguments.dist.resolve(), int(epoch)).pack()


if __name__ == "__main__":
    main()
