"""What an agent with full access could plant: taken before it begins, restored after it."""

import errno
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from kern.git import copies, protected_files, submodules
from kern.git.copies import LARGE, LINK, ODD, Contents, Copy
from kern.git.protected_files import How, Layout, Place
from kern.git.repository import Entry, Repo
from kern.git.snapshot import Snapshots
from kern.obeyed import FOLDERS, HOME, SETTINGS
from kern.system import workspace

_HIDING = "ignore:"
_WATCHED = "large:"
LIST = "list"
_MOST_BYTES = 64 << 20  # of all copies; of what is beyond only a change is seen
_SECRET = ("common:config", "git:config.worktree")  # no other file is to hold a password of these
_MOST_REPLACED = 20  # folders of what stood in a place that was restored


@dataclass(slots=True)
class Restored:
    """What had changed, as a person names it."""

    back: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # of these there is no sound copy
    kept: Path | None = None  # where what stood there instead lies now


class Guard:
    """Remembers what it took: a copy on the disk is the agent's to change."""

    def __init__(self, repo: Repo, snapshots: Snapshots) -> None:
        self.repo = repo
        self.snapshots = snapshots
        self._contents: Contents = {}
        self._lists: dict[str, bytes] = {}  # git may not work before it is restored

    # ---------------------------------------------------------------- before

    def take(self, tree: str) -> str:
        """What is guarded and not in the snapshot `tree`, as a commit that lists it; and the
        .gitignore files that hide themselves, so that a snapshot can do without them, and the
        stamps of the large files beside it.
        """
        folder, layout = protected_files.hooks_place(self.repo)
        places = self._places(folder, layout, tree)
        links = {name for name in protected_files.folders(places) if layout.at(name).is_symlink()}
        links -= self._in(tree, layout, links)
        names = {*layout.there(places, links)}
        found: dict[str, Copy] = {}
        size = 0
        for name in sorted(links | names - self._in(tree, layout, names)):
            beyond = Copy(LARGE, 0, "") if size > _MOST_BYTES else None
            if copy := copies.look(layout.at(name), self._contents, beyond):
                found[name] = copy
                size += 0 if copy.mode == LARGE else copy.size
        listed = copies.listed(layout.hooks, places, found)
        entries = {LIST: Entry("100644", self.repo.blob(listed))}
        for path, entry in self.snapshots.hiding(tree).items():
            entries[_HIDING + _quoted(path)] = entry
        for path, stamp in self.snapshots.large(tree).items():
            entries[_WATCHED + _quoted(path)] = Entry("100644", self.repo.blob(stamp.encode()))
        made = self.repo.tree_with("", entries)
        guard = self.repo.commit_object(made, (), "guarded\n")
        self._lists[guard] = listed
        return guard

    def store(self, guard: str) -> None:
        """On the disk before a start ref names it, for the kern that goes on after a kill."""
        needed = needs(self.repo, guard) & self._contents.keys()
        copies.store(stored(self.repo), {name: self._contents[name] for name in needed})

    def _places(self, folder: str, layout: Layout, tree: str) -> list[Place]:
        """`core.hooksPath`, or a link, can lead to a folder of hooks, or to one of all sorts."""
        places = [*protected_files.CONFIG]
        for name in dict.fromkeys(("common:hooks", folder)):
            places.append((name, How.HOOKS))
            place = layout.at(name)
            own = name == "common:hooks" and not place.is_symlink()
            if own or protected_files.alone(place, self.repo.root):
                files = (name, How.ALL)
                if not self._in(tree, layout, layout.there([files], {name})):
                    places.append(files)
        return [*places, *protected_files.modules(layout), *protected_files.TREE]

    # ---------------------------------------------------------------- after

    def restore(self, guard: str, tree: str, told: Restored) -> None:
        """All of it as it was, but what the snapshot `tree` holds, or the next one will: that is
        the task's to change.
        """
        layout, places, held = self._listed(guard)
        for turn in range(protected_files.TURNS):
            some = [place for place in places if protected_files.turn(place[0]) == turn]
            old = {name: copy for name, copy in held.items() if protected_files.turn(name) == turn}
            links = {name for name, copy in old.items() if copy.mode == LINK}
            above = [
                n for n in protected_files.folders(some) if n in links or layout.at(n).is_symlink()
            ]
            bare = {n for n in above if not any(f"{one}/".startswith(f"{n}/") for one in old)}
            stays = self._snapped(tree, layout, bare)
            for name in above:  # the rest is read, and written, through these
                if name not in stays:
                    self._restore(layout, name, old.get(name), told)
            names = {*old, *layout.there(some, links)}
            stays = self._snapped(tree, layout, names - old.keys())
            for name in sorted(names - stays):
                self._restore(layout, name, old.get(name), told)

    def restore_files(self, held: Mapping[str, Copy], names: Iterable[str], told: Restored) -> None:
        layout = Layout(self.repo)
        for name in names:
            self._restore(layout, name, held.get(name), told)

    def _listed(self, guard: str) -> tuple[Layout, list[Place], dict[str, Copy]]:
        if raw := self._lists.get(guard) or self.repo.content(guard, LIST):
            hooks, places, held = copies.unlisted(raw)
            return Layout(self.repo, hooks), [(name, How(how)) for name, how in places], held
        held = {}  # as an earlier kern had it, whose start ref may still stand
        for name, entry in self.repo.entries(guard).items() if guard else ():
            if not name.startswith((_HIDING, _WATCHED)):
                data = self.repo.data(entry.blob)
                held[_renamed(name)] = copy = copies.of(data, entry.mode)
                self._contents[copy.digest] = data
        linked = "common:hooks" in held
        own = () if linked else (("common:hooks", How.FOLDER),)
        return Layout(self.repo), [*protected_files.CONFIG, *own], held

    def _restore(self, layout: Layout, name: str, old: Copy | None, told: Restored) -> None:
        place = layout.at(name)
        now = copies.look(place, {}, old)
        if (old.same(now) if old else now is None) or protected_files.gone(layout, name):
            return
        data = self._content(old) if old else b""
        if data and protected_files.is_module_config(name):
            there = copies.read(place, copies.LARGEST)
            if there is not None and submodules.alike(there, data):
                return
        if data is None:
            told.lost.append(layout.shown(name))
            return
        told.back.append(layout.shown(name))
        with workspace.reported(place):
            plain = old is not None and old.mode != LINK
            self._set_aside(name, place, told, leave=plain)
            if old is None:
                _tidy(layout, name)
                return
            for above in protected_files.folders_of(name):
                if not layout.at(above).is_dir():
                    self._set_aside(above, layout.at(above), told)
                    layout.at(above).mkdir(parents=True)
            if plain:
                workspace.replace(place, data, mode=old.bits)
            else:
                place.symlink_to(os.fsdecode(data))

    def _content(self, copy: Copy) -> bytes | None:
        if copy.mode in (LARGE, ODD):
            return None
        if copy.digest not in self._contents:
            self._contents.update(copies.stored(stored(self.repo)))
        return self._contents.get(copy.digest)

    def _set_aside(self, name: str, place: Path, told: Restored, *, leave: bool = False) -> None:
        """Keep what stands there: it may be a person's. `leave` a file until another replaces it,
        so that there is one at any time.
        """
        file = place.is_file() and not place.is_symlink()
        if not os.path.lexists(place) or (leave and file and _secret(name)):
            return
        if told.kept is None:
            told.kept = self._room()
        aside = told.kept / _quoted(name)[-200:]
        try:
            if leave and file:
                os.link(place, aside)
            else:
                os.rename(place, aside)
        except OSError as exc:
            if exc.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise
            if place.is_dir() and not place.is_symlink():
                place.rename(f"{place}.{told.kept.name}")
                return
            shutil.copy2(place, aside, follow_symlinks=False)
            if not (leave and file):
                place.unlink()

    def _room(self) -> Path:
        above = self.repo.git_dir / "kern" / "replaced"
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(above.iterdir())[: 1 - _MOST_REPLACED]:
            shutil.rmtree(old, ignore_errors=True)
        when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        room = above / f"{when}-{time.monotonic_ns()}"
        room.mkdir(mode=0o700)
        return room

    # ---------------------------------------------------------------- what a snapshot holds

    def _in(self, tree: str, layout: Layout, names: Iterable[str]) -> set[str]:
        """Those of the names that the tree holds."""
        paths = {name: layout.path(name) for name in names}
        tops = sorted({f"./{path.split('/')[0]}" for path in paths.values() if path})
        if not tops:
            return set()
        how = ("-r", "-z", "--name-only", "--full-tree")
        there = {*self.repo.paths("ls-tree", *how, tree, *tops)}
        return {name for name, path in paths.items() if path in there}

    def _snapped(self, tree: str, layout: Layout, names: Iterable[str]) -> set[str]:
        """Those that the snapshot holds, or the next one will, and that the task does not hide from
        git: these are seen in its commit.
        """
        known = self._in(tree, layout, names)
        rest = {name: layout.path(name) for name in {*names} - known}
        if not any(rest.values()):
            return known
        after = self.snapshots.take(tree)
        new = self._in(after, layout, rest)
        paths = {rest[name] for name in new}
        hidden = self.snapshots.ignored_by(tree, paths) | self.snapshots.ignored_by(after, paths)
        return known | {name for name in new if rest[name] not in hidden}


def _quoted(name: str) -> str:
    """As the name of one file."""
    return quote(os.fsencode(name), safe="")


def _secret(name: str) -> bool:
    return name in _SECRET or protected_files.is_module_config(name)


def _tidy(layout: Layout, name: str) -> None:
    """No folder that was made for it stays behind in the working tree."""
    above = [*protected_files.folders_of(name)] if protected_files.in_tree(name) else []
    for folder in reversed(above):
        try:
            layout.at(folder).rmdir()
        except OSError:
            return


def _renamed(name: str) -> str:
    """As an earlier kern, and one before that, called it."""
    if name.startswith(("hooks:", "hooks/")):
        return f"common:hooks/{name[6:]}"
    place = {"config.worktree": "git:config.worktree", "config": "common:config"}
    return place.get(name) or f"common:{'' if name == 'hooks' else 'info/'}{name}"


# -------------------------------------------------------------------- between runs


def stored(repo: Repo) -> Path:
    return repo.git_dir / "kern" / "guard.json"


def needs(repo: Repo, guard: str) -> set[str]:
    """The hashes of the copies that a start ref goes by."""
    raw = repo.content(guard, LIST) if guard else None
    return {copy.digest for copy in copies.unlisted(raw)[2].values()} if raw else set()


def prune(repo: Repo, guards: Iterable[str]) -> None:
    """Only what start refs still go by stays on the disk."""
    copies.prune(stored(repo), {digest for guard in guards for digest in needs(repo, guard)})


def hiding(repo: Repo, guard: str) -> dict[str, Entry]:
    """The .gitignore files that hid themselves."""
    return _named(repo, guard, _HIDING)


def large(repo: Repo, guard: str) -> dict[str, str]:
    """The large files that were only watched, with their stamps."""
    found = _named(repo, guard, _WATCHED)
    return {path: repo.data(entry.blob).decode("ascii") for path, entry in found.items()}


def _named(repo: Repo, guard: str, prefix: str) -> dict[str, Entry]:
    return {
        os.fsdecode(unquote_to_bytes(name.removeprefix(prefix))): entry
        for name, entry in repo.entries(guard).items()
        if name.startswith(prefix)
    }


def restore_hiding(repo: Repo, guard: str) -> list[str]:
    """Put back the .gitignore files that hide themselves, where their folder still stands: without
    them what they hid would look like work. The paths of those that had changed.
    """
    changed = []
    for path, entry in hiding(repo, guard).items():
        place = repo.root / path
        if not place.parent.is_dir() or place.is_dir() or place.is_symlink():
            continue
        data = repo.data(entry.blob)
        if workspace.read(place) != data:
            workspace.replace(place, data, mode=0o644, scratch=repo.scratch)
            changed.append(path)
    return sorted(changed)


# -------------------------------------------------------------------- what is seen


def obeyed(repo: Repo, change: Mapping[str, Entry | None]) -> list[str]:
    """Of a task's change what git or an agent will run by itself: reviewed, one hopes, before."""
    name, _ = protected_files.hooks_place(repo)
    region, _, folder = name.partition(":")
    above = {folder, os.path.dirname(folder)} if folder.endswith("/_") else {folder}  # husky's
    return sorted(
        path
        for path, entry in change.items()
        if entry
        and (
            path in (*SETTINGS, HOME)
            or path.split("/", 1)[0] in FOLDERS
            or (region == "tree" and os.path.dirname(path) in above and _is_hook(path))
        )
    )


def _is_hook(path: str) -> bool:
    return protected_files.is_hook(os.path.basename(path))
