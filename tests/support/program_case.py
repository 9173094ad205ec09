"""What tests that start the program have in common: a folder of their own, the program in it, alone or under mpirun, and the words that
their scripts are called with."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from runs import mpi_environment


class ProgramCase(unittest.TestCase):
    """`folder` is there anew for every test, unless the class shares one; `program` and what else main() was told are paths."""
    program, mpirun, folder = None, None, None
    limit = 240  # seconds of a command, on a busy machine

    @classmethod
    def share_folder(cls):
        """For setUpClass()."""
        holder = tempfile.TemporaryDirectory(prefix="starling-test-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)

    def setUp(self):
        if type(self).folder is None:
            holder = tempfile.TemporaryDirectory(prefix="starling-test-")
            self.addCleanup(holder.cleanup)
            self.folder = pathlib.Path(holder.name)

    def launched(self, *words, processes=0, options=(), program=None):
        """The command of the program, or of another one, with these words, for so many processes; for none without mpirun."""
        launcher = [self.mpirun, *options, "-n", str(processes)] if processes else []
        return [*launcher, program or self.program, *words]

    def start(self, *words, processes=0, options=(), program=None, environment=None, **more):
        """The program at work."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.launched(*words, processes=processes, options=options, program=program), text=True,
                                env=mpi_environment(**(environment or {})), **{"cwd": self.folder, **pipes, **more})

    def starling(self, *words, status=0, processes=0, options=(), program=None, environment=None, **more):
        """The program when it has ended, with this exit status; None for any."""
        done = subprocess.run(self.launched(*words, processes=processes, options=options, program=program), text=True, timeout=self.limit,
                              env=mpi_environment(**(environment or {})), check=False,
                              **{"cwd": self.folder, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})
        if status is not None:
            self.assertEqual(done.returncode, status, f"{' '.join(map(str, words))}\n{done.stdout or ''}{done.stderr or ''}")
        return done

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")


def main(*names):
    """Runs the tests of the script that is called; ProgramCase gets the paths that it is called with by these names, `--option` one that
    need not be there."""
    for name in names:
        option = name.removeprefix("--")
        if name == option:
            path = sys.argv.pop(1)
        elif name in sys.argv:
            place = sys.argv.index(name)
            path = sys.argv[place + 1]
            del sys.argv[place:place + 2]
        else:
            continue
        setattr(ProgramCase, option, pathlib.Path(path).absolute())
    unittest.main()
