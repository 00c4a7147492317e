"""Contracts shared by both sides: vocabulary, messages, signing, ledger, adapter codec, sandbox and policy."""
