"""What archopt raises for bad input: one line that says what came, what is allowed, and what would be right."""


class ArchoptError(Exception):
    """Base of every error that archopt raises on purpose.

    Attributes:
        exit_code: of a command that ends with it: 2 for bad input, 1 for a failure while running.
    """

    exit_code = 2


class AllocationError(ArchoptError, ValueError):
    """A width, head count or limit that admits no split H * d_k = D."""


class DegenerateHeadError(ArchoptError, ValueError):
    """A head's key projection is not finite or lacks full column rank.

    Attributes:
        head: index of the first such head.
    """

    def __init__(self, message: str, head: int) -> None:
        super().__init__(message)
        self.head = head

    def __reduce__(self) -> tuple[type["DegenerateHeadError"], tuple[str, int]]:
        return type(self), (str(self), self.head)  # workers send errors across processes


class OptionError(ArchoptError, ValueError):
    """An option or argument outside what is allowed."""


class DataError(ArchoptError, ValueError):
    """A data set that cannot be read, or cannot be learned from."""


class StorageError(ArchoptError):
    """A storage, folder or campaign that cannot be opened, written or resumed."""


class PluginError(ArchoptError):
    """A package beside archopt that is missing, cannot be loaded, or is of a version that does not fit."""


class TrialFailed(ArchoptError):
    """One trial could not be finished; the message is its recorded reason, and the search goes on."""

    exit_code = 1


class CampaignFailed(ArchoptError):
    """A search that had started cannot go on; what had finished is kept."""

    exit_code = 1
