"""What archopt raises for bad input: one line that says what came, what is allowed, and what would be right."""


class ArchoptError(Exception):
    """Base of every error that archopt raises on purpose."""


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


class OptionError(ArchoptError, ValueError):
    """An option or argument outside what is allowed."""


class DataError(ArchoptError, ValueError):
    """A data set that cannot be read, or cannot be learned from."""


class StorageError(ArchoptError):
    """A storage, folder or campaign that cannot be opened, written or resumed."""


class TrialFailed(ArchoptError):
    """One trial could not be finished; the message is its recorded reason, and the search goes on."""
