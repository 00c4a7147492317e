"""Studies out of a DICOMweb server into a staging folder: its own process, the only one that may reach the PACS.

Nothing here imports the bank, keys or the trainer, and nothing of what was fetched is looked at but its UIDs.
"""

from stage_bank.ingest.dicomweb.pull import Pulled, pull
from stage_bank.ingest.dicomweb.server import Server
from stage_bank.ingest.dicomweb.settings import Settings, load_settings
from stage_bank.ingest.dicomweb.staging import Staging

__all__ = ["Pulled", "Server", "Settings", "Staging", "load_settings", "pull"]
