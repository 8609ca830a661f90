"""dramatiq: messages in RabbitMQ, acknowledged after the actor."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from bench.peers_race import Mark

QUEUE = "dramatiq-bench"
# Its own number of threads; by itself it would fetch only two messages ahead for each of them.
THREADS = 8
PREFETCH = 128


@dataclass(frozen=True)
class DramatiqPeer:
    """dramatiq as it comes: persistent messages in a durable queue, acknowledged late.

    With `results`, each actor sends a message to that queue.
    """

    jobs: int
    url: str
    results: str = ""

    def fill(self) -> None:
        broker = RabbitmqBroker(url=self.url)
        job = dramatiq.actor(_ignore, actor_name="job", queue_name=QUEUE, broker=broker)
        for number in range(self.jobs):
            job.send(number)
        broker.close()

    def work(self, mark: Mark) -> None:
        broker = RabbitmqBroker(url=self.url)

        def job(number: int) -> None:
            if self.results:
                broker.enqueue(dramatiq.Message(self.results, "result", (number,), {}, {}))
            mark(number)

        if self.results:
            broker.declare_queue(self.results, ensure=True)
        dramatiq.actor(job, actor_name="job", queue_name=QUEUE, broker=broker)
        worker = dramatiq.Worker(broker, queues={QUEUE}, worker_threads=THREADS)
        worker.queue_prefetch = PREFETCH  # by its own command: dramatiq_queue_prefetch
        worker.start()
        threading.Event().wait()


def _ignore(number: int) -> None:
    del number
