"""celery: messages in RabbitMQ, acknowledged after the task."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

from celery import Celery
from celery.app.task import Task

from bench.peers_race import Mark

QUEUE = "celery-bench"
# Many small tasks want a large prefetch, its documentation says. Of its pools, one thread was the fastest;
# "solo" keeps its last acknowledgements to itself for ten seconds.
POOL = "threads"
PREFETCH = 128


@dataclass(frozen=True)
class CeleryPeer:
    """celery with late acknowledgements, persistent messages in a durable queue, and no results.

    With `results`, each task sends a message to that queue.
    """

    jobs: int
    url: str
    results: str = ""

    def fill(self) -> None:
        job = self._job(_ignore)
        with job.app.producer_or_acquire() as producer:
            for number in range(self.jobs):
                job.apply_async((number,), producer=producer)

    def work(self, mark: Mark) -> None:
        warnings.simplefilter("ignore")  # it warns about running as root
        worker = self._job(mark).app.Worker(
            hostname=f"bench-{os.getpid()}@localhost",
            queues=[QUEUE],
            pool=POOL,
            concurrency=1,
            loglevel="ERROR",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        worker.start()

    def _job(self, mark: Mark) -> Task:
        app = Celery("bench", broker=self.url)
        app.conf.update(
            task_acks_late=True,
            task_default_queue=QUEUE,
            task_ignore_result=True,
            worker_disable_rate_limits=True,
            worker_enable_remote_control=False,
            worker_prefetch_multiplier=PREFETCH,
        )

        def job(number: int) -> None:
            if self.results:
                app.send_task("result", (number,), queue=self.results)
            mark(number)

        return app.task(job, name="job")


def _ignore(number: int) -> None:
    del number
