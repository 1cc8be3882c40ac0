"""Which rows make a line."""

from made_up_runs import row, run

from faemb.pages.lines import lines_of, ordered

PLOT = {"x": "n", "y": "mAP", "lines": "method"}


def test_a_line_for_each_value_with_points_by_x() -> None:
    rows = (row("FAemb", 16, 75.0, 75.8), row("Temb", 64, 70.0), row("FAemb", 8, 72.0))
    faemb, temb = lines_of(run(*rows, plot=PLOT))
    assert (faemb.label, faemb.measured, faemb.published) == ("FAemb", ((8, 72.0), (16, 75.0)), ((16, 75.8),))
    assert (temb.label, temb.measured, temb.published) == ("Temb", ((64, 70.0),), ())


def test_rows_that_differ_in_more_do_not_share_a_line() -> None:
    rows = [row("FAemb", n, 70.0, D=45 * n, pooling=pooling) for n in (8, 16) for pooling in ("sum", "democratic")]
    assert [line.label for line in lines_of(run(*rows, plot=PLOT))] == ["FAemb, sum", "FAemb, democratic"]


def test_numbers_are_named_in_labels() -> None:
    rows = [row("FAemb", n, 70.0, bits=bits, signed=True) for n in (8, 16) for bits in (128, 1024)]
    shown = run(*rows, plot={"x": "n", "y": "mAP", "lines": "bits"})
    assert [line.label for line in lines_of(shown)] == ["bits 128", "bits 1,024"]


def test_rows_without_the_setting_or_the_measure_are_left_out() -> None:
    assert lines_of(run(plot={**PLOT, "x": "bits"})) == []
    assert lines_of(run(plot={**PLOT, "y": "N-S"})) == []
    assert lines_of(run()) == []


def test_numbers_are_sorted_and_words_are_not() -> None:
    assert ordered([16, 8, 16, 2.5]) == [2.5, 8, 16]
    assert ordered(["b", "a", "b"]) == ["b", "a"]
    assert ordered(["b", 3, "a"]) == ["b", 3, "a"]
