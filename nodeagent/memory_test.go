package nodeagent

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// smapsOf writes one mapping as Linux does, with a few of its figures.
func smapsOf(addresses, mode, anonymous, file string) string {
	return fmt.Sprintf("%s %s 00000000 fe:00 9996189                            %s\nSize:  68 kB\nRss:   4 kB\nAnonymous:  %s\nVmFlags: rd ex mr mw me\n", addresses, mode, file, anonymous)
}

func TestDroppable(t *testing.T) {
	const self = "/opt/quoin/bin/quoin"
	tests := []struct {
		name string
		text string
		want []mapping
	}{
		{"text", smapsOf("00411000-012e1000", "r-xp", "0 kB", self), []mapping{{0x411000, 0x12e1000}}},
		{"constants", smapsOf("012e1000-02223000", "r--p", "0 kB", self), []mapping{{0x12e1000, 0x2223000}}},
		{"relocated, then read-only", smapsOf("02223000-02224000", "r--p", "4 kB", self), nil},
		{"data", smapsOf("02224000-022ad000", "rw-p", "112 kB", self), nil},
		{"data that nobody has touched", smapsOf("02224000-022ad000", "rw-p", "0 kB", self), nil},
		{"a library", smapsOf("7f00000000-7f00001000", "r-xp", "0 kB", "/lib/libc.so.6"), nil},
		{"a file whose name ends alike", smapsOf("00411000-012e1000", "r-xp", "0 kB", "/other"+self), nil},
		{"heap after text", smapsOf("00411000-012e1000", "r-xp", "0 kB", self) + smapsOf("02300000-02400000", "r--p", "0 kB", "[heap]"), []mapping{{0x411000, 0x12e1000}}},
		{"garbage", "x\n\nAnonymous:\n-- --\n" + smapsOf("zz-yy", "r-xp", "0 kB", self), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, droppable(strings.NewReader(tt.text), self), cmp.AllowUnexported(mapping{})); diff != "" {
				t.Errorf("mappings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDroppableOfSelf asks the kernel: this program has text to drop.
func TestDroppableOfSelf(t *testing.T) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := droppable(f, self); len(got) == 0 {
		t.Error("no mapping of this program is droppable")
	}
	TrimMemory() // and it goes on
}

// TestScrapesTrim: a scrape, which maps much of the program, is told to the agent.
func TestScrapesTrim(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	for range 2 { // the second finds the agent told already
		if _, err := reg.Gather(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.scraped); n != 1 {
		t.Errorf("told %d times, want 1", n)
	}
}
