"""Streams of contexts and rewards: bundled data sets, synthetic problems, tables and logs."""

from releaf.streams.batches import Batch, read_log
from releaf.streams.breast_cancer import breast_cancer
from releaf.streams.clicks import clicks
from releaf.streams.data_files import DataError
from releaf.streams.dsjson import read_dsjson
from releaf.streams.intrusion import intrusion
from releaf.streams.planted_log import PlantedLog, planted_log
from releaf.streams.prompts import Prompts, prompts
from releaf.streams.stream import Log, Stream
from releaf.streams.synthetic import draft, generate, lemma1
from releaf.streams.tables import log, table
from releaf.streams.webpages import open_bandit, read_yahoo, yahoo

__all__ = [
    "Batch",
    "DataError",
    "Log",
    "PlantedLog",
    "Prompts",
    "Stream",
    "breast_cancer",
    "clicks",
    "draft",
    "generate",
    "intrusion",
    "lemma1",
    "log",
    "open_bandit",
    "planted_log",
    "prompts",
    "read_dsjson",
    "read_log",
    "read_yahoo",
    "table",
    "yahoo",
]
