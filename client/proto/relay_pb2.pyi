from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("description",)
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    description: bytes
    def __init__(self, description: _Optional[bytes] = ...) -> None: ...

class TrainChunk(_message.Message):
    __slots__ = ("prescription", "adapter")
    PRESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    prescription: bytes
    adapter: bytes
    def __init__(self, prescription: _Optional[bytes] = ..., adapter: _Optional[bytes] = ...) -> None: ...

class RoundEvent(_message.Message):
    __slots__ = ("state", "release", "update", "refusal")
    STATE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    state: str
    release: bytes
    update: bytes
    refusal: bytes
    def __init__(self, state: _Optional[str] = ..., release: _Optional[bytes] = ..., update: _Optional[bytes] = ..., refusal: _Optional[bytes] = ...) -> None: ...

class RoundKey(_message.Message):
    __slots__ = ("run", "round")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    run: str
    round: int
    def __init__(self, run: _Optional[str] = ..., round: _Optional[int] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: bool
    def __init__(self, cancelled: _Optional[bool] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShutdownReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
