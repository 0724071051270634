package topology

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCountsKeep keeps what an earlier moment had, and says why it is not of this one.
func TestCountsKeep(t *testing.T) {
	before := &Counts{Whole: map[string]uint64{"pcie_replays": 3}, Links: map[string]LinkCounts{"nvlink_recoveries": {1, NotRead, 5}}, Xids: map[int]uint64{31: 2}, Watched: 1, RowsPending: new(false)}
	lost := &Counts{Absent: map[string]string{AllCounters: "lost"}}
	kept := lost.Keep(before)
	for range 2 { // once lost, it stays lost
		for _, name := range []string{"pcie_replays", "nvlink_recoveries", "ecc_corrected", RowsPending, XidsName} {
			if why := kept.Why(name); why != "lost" {
				t.Errorf("%s is not known because %q, want lost", name, why)
			}
		}
		kept = lost.Keep(kept)
	}
	back := &Counts{Whole: map[string]uint64{"pcie_replays": 4}, Links: map[string]LinkCounts{"nvlink_recoveries": {NotRead, 2}}, Xids: map[int]uint64{31: 3}, Watched: 1, RowsPending: new(true)}
	got := back.Keep(kept)
	want := &Counts{Whole: map[string]uint64{"pcie_replays": 4}, Links: map[string]LinkCounts{"nvlink_recoveries": {1, 2, 5}}, Xids: map[int]uint64{31: 3}, Watched: 1, RowsPending: new(true), Absent: map[string]string{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("when it is back (-want +got):\n%s", diff)
	}
	if came, gap := back.NewXids(kept); gap || came[31] != 1 {
		t.Errorf("Xids %v, gap %t: want one more", came, gap)
	}
	if came, gap := lost.NewXids(back); gap || came != nil {
		t.Errorf("Xids %v, gap %t while it is lost", came, gap)
	}
	mig := &Counts{Absent: map[string]string{AllCounters: OfWholeGPU}}
	if diff := cmp.Diff(map[string]string{AllCounters: OfWholeGPU, XidsName: OfWholeGPU}, mig.Keep(mig).Absent); diff != "" {
		t.Errorf("a MIG instance says it once (-want +got):\n%s", diff)
	}
}

// TestGrowth compares two moments. A link that is not there at both moments is left out.
func TestGrowth(t *testing.T) {
	before := &Counts{Whole: map[string]uint64{"pcie_replays": 3, "thermal": 5e9}, Links: map[string]LinkCounts{"nvlink_recoveries": {1, NotRead, 5, 2}}}
	now := &Counts{Whole: map[string]uint64{"pcie_replays": 3, "thermal": 8e9, "power_cap": 1}, Links: map[string]LinkCounts{"nvlink_recoveries": {1, 7, NotRead, 6, 9}, "nvlink_replays": {0}}}
	type growth struct {
		Sum   float64
		Links map[int]float64
		Known bool
	}
	for name, want := range map[string]growth{
		"pcie_replays": {0, nil, true}, "thermal": {3, nil, true}, "power_cap": {}, "sync_boost": {},
		"nvlink_recoveries": {4, map[int]float64{3: 4}, true}, "nvlink_replays": {},
	} {
		var got growth
		got.Sum, got.Links, got.Known = counterOf(name).Growth(before, now)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if back, forth := before.WentBack(now), now.WentBack(before); back != "nvlink_recoveries" || forth != "" {
		t.Errorf("went back: %q and %q", back, forth)
	}
	delete(now.Links, "nvlink_recoveries")
	if back := before.WentBack(now); back != "thermal" {
		t.Errorf("went back, and its links are not known: %q", back)
	}
}

func TestCountsCheck(t *testing.T) {
	for text, want := range map[string]string{
		`{"whole":{"pcie_replays":1},"links":{"nvlink_replays":"0 - 5"},"absent":{"*":"x","xids":"y"},"xids":{"31":1}}`: "",
		`{"whole":{"nvlink_replays":1}}`:                                  `whole: "nvlink_replays": want a counter of the whole GPU`,
		`{"whole":{"nonsense":1}}`:                                        `whole: "nonsense": want a counter of the whole GPU`,
		`{"links":{"pcie_replays":"1"}}`:                                  `links: "pcie_replays": want a counter of NVLinks`,
		`{"links":{"nvlink_replays":""}}`:                                 `links: nvlink_replays: 0 links: want 1 to 36`,
		`{"links":{"nvlink_replays":"-5"}}`:                               `link 0: "-5": want a number, or -`,
		`{"links":{"nvlink_replays":"x"}}`:                                `link 0: "x": want a number, or -`,
		`{"links":{"nvlink_replays":"` + strings.Repeat("0 ", 37) + `"}}`: `37 links: want at most 36`,
		`{"absent":{"nonsense":"x"}}`:                                     `absent: "nonsense": want a counter`,
		`{"absent":{"xids":""}}`:                                          `absent: xids: a reason of 0 bytes: want 1 to 160`,
	} {
		var c Counts
		err := json.Unmarshal([]byte(text), &c)
		if err == nil {
			err = c.Check()
		}
		said := ""
		if err != nil {
			said = err.Error()
		}
		if !strings.HasSuffix(said, want) || want == "" && said != "" {
			t.Errorf("%.60s: %q, want %q", text, said, want)
		}
		if again, err := json.Marshal(c); want == "" && (err != nil || !strings.Contains(string(again), `"0 - 5"`)) {
			t.Errorf("written again: %s, %v", again, err)
		}
	}
}
