from pathlib import Path

from pydicom.uid import UID

from stage_bank.deidentify.allowlists import TextRisk, allow_list, allow_lists
from stage_bank.deidentify.conformance import document, rows
from stage_bank.deidentify.kinds import Kind

DOCS = Path(__file__).parents[3] / "docs" / "deidentification.md"


def test_the_page_is_current():
    assert DOCS.read_text() == document(), "run python -m stage_bank.deidentify.conformance > docs/deidentification.md"


def test_what_the_profile_removes_stays_only_by_an_option():
    kept = {row.keyword: row for row in rows() if row.kept is not None}
    by_option = {keyword for keyword, row in kept.items() if row.option}
    replaced = {keyword for keyword, row in kept.items() if row.kept is Kind.UID}
    dummies = {keyword for keyword, row in kept.items() if row.kept in (Kind.DUMMY, Kind.EMPTY)}
    assert kept.keys() - by_option - replaced - dummies == {"ReferencedImageSequence", "SourceImageSequence"}
    assert all("U" in kept[keyword].action for keyword in replaced)
    assert all(set(kept[keyword].action) & set("DZ") for keyword in dummies)


def test_the_table_covers_the_known_identifiers():
    asked = {row.keyword: row for row in rows()}
    for keyword in ("PatientName", "PatientAddress", "OtherPatientIDsSequence", "InstitutionName", "StudyDescription"):
        assert asked[keyword].kept is None
        assert asked[keyword].ours in ("removed", "empty")
    assert len(asked) > 500


def test_every_class_is_in_one_family_and_names_its_risk():
    classes = [uid for found in allow_lists() for uid in found.classes]
    assert len(classes) == len(set(classes)) > 60
    assert all(UID(uid).name != uid for uid in classes)
    risks = {found.family: found.text for found in allow_lists()}
    assert risks["ultrasound"] is risks["other image"] is TextRisk.LIKELY
    assert risks["ct"] is TextRisk.UNLIKELY


def test_documents_video_photographs_waveforms_and_raw_data_have_no_list():
    for name in ("104.1", "104.2", "104.3", "77.1.1.1", "77.1.4", "13.1.2", "9.1.1", "66", "481.5"):
        assert allow_list(f"1.2.840.10008.5.1.4.1.1.{name}") is None


def test_no_list_has_free_text_or_bytes():
    """An attribute of a text-like representation is kept only through a closed set, a dummy or as empty."""
    free = {"LO", "LT", "SH", "ST", "UC", "UR", "UT", "PN", "OB", "OW", "UN", "AE"}
    pending = [attribute for found in allow_lists() for attribute in found.attributes.values()]
    seen = 0
    while pending:
        attribute = pending.pop()
        if isinstance(attribute.rule, dict):
            pending += attribute.rule.values()
        elif attribute.vr in free:
            seen += 1
            numbers = attribute.rule is Kind.INTEGER
            assert isinstance(attribute.rule, frozenset) or attribute.rule in (Kind.DUMMY, Kind.EMPTY) or numbers
    assert seen > 5
