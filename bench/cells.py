"""The nine cells of a public benchmark of queues in PostgreSQL: five kinds of chaos, four kinds of pressure.

    make bench ARGS="cells"                              # all cells, all queues: about half an hour
    python -m bench.cells --only open-transaction --peers onward --seconds 60     # a closer look at one

The second form prints windows of five seconds, the rows of the busiest tables and the dearest statements of each
phase. All run on one private server that syncs every commit, each cell in a database of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from bench.cells_definitions import CELLS, Cell
from bench.cells_peers import PEERS
from bench.cells_report import print_details, sheets
from bench.cells_run import CellRun, measure_capacity, run_cell
from bench.cells_server import private_server
from bench.table import Sheet, print_sheet
from onward.retry import redact

NAMES = tuple(cell.name for cell in CELLS)


def run(
    only: Sequence[str] = (),
    peers: Sequence[str] = (),
    seconds: float | None = None,
    look: Callable[[CellRun], None] | None = None,
) -> list[Sheet]:
    """Run the chosen cells with the chosen queues, and return their tables; `look` gets each run."""
    cells = [_lasting(cell, seconds) for cell in CELLS if not only or cell.name in only]
    runs: list[CellRun] = []
    with private_server() as server:
        capacities = {name: measure_capacity(server, PEERS[name]) for name in peers or PEERS}
        for cell in cells:
            for name, capacity in capacities.items():
                try:
                    done = run_cell(server, PEERS[name], cell, capacity)
                except Exception as error:  # of a queue that did not survive: the others go on
                    click.secho(f"{cell.name}, {name} is left out: {redact(str(error))}", err=True, fg="red")
                    continue
                runs.append(done)
                for sheet in sheets([done]):
                    click.echo(f"  {' | '.join(sheet.rows[0])}", err=True)
                if look is not None:
                    look(done)
    return sheets(runs)


def _lasting(cell: Cell, seconds: float | None) -> Cell:
    return cell if seconds is None else cell.lasting(seconds)


@click.command()
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Only this cell; can be repeated.")
@click.option("--peers", multiple=True, type=click.Choice(list(PEERS)), help="Only this queue; can be repeated.")
@click.option("--seconds", type=click.FloatRange(min=1), help="How long the disturbance lasts.")
def main(only: tuple[str, ...], peers: tuple[str, ...], seconds: float | None) -> None:
    """Run cells and print what happened in them in detail."""
    for sheet in run(only, peers, seconds, print_details):
        print_sheet(sheet)


if __name__ == "__main__":
    main()
