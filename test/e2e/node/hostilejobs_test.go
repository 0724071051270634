package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/topology"
)

// TestHostileRunDirectory has a container with slurmd write records that name a mapping
// directory and 100,000 files, and links in the place of folders. Agent and hook write where
// they are configured, and the other jobs go on.
func TestHostileRunDirectory(t *testing.T) {
	t.Parallel()
	n := newHookedNode(t)
	n.startAgent()
	n.until("the inventory", n.hasInventory)
	n.Step("7.extern")
	n.call("prolog", "7", []string{"0"}, 0)

	victim := t.TempDir()
	others := map[string]string{"0": "9\nroot:x:0:0\n", "8.json": "{}"}
	for name, text := range others {
		if err := os.WriteFile(filepath.Join(victim, name), []byte(text), 0o644); err != nil { //nolint:gosec // its mode is to stay
			t.Fatal(err)
		}
	}
	ids := make([]string, 100_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	for job, gpus := range map[string]string{"8": strings.Join(ids, ","), "9": `"0","1"`} {
		text := fmt.Sprintf(`{"apiVersion": %q, "kind": "JobRecord", "jobID": %q, "gpus": [%s], "mappingDir": %q}`, topology.APIVersion, job, gpus, victim)
		if err := os.WriteFile(n.run("jobs", job+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.until("the lines of job 9 in the configured directory", func() bool { return strings.Join(n.lines()["1"], " ") == "9" })
	for _, folder := range []string{"use", "summaries", "ended", "marks"} {
		link := filepath.Join(t.TempDir(), folder)
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
		// At once, because the agent writes into the folder all the time.
		if err := unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, n.run(folder), unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
	}
	n.Step("10.extern")
	n.call("prolog", "10", []string{"2"}, 0)
	n.call("epilog", "9", []string{"0", "1"}, 0)
	n.call("epilog", "8", nil, 0)
	n.Step("11.extern")
	n.call("prolog", "11", []string{"3"}, 0)
	n.until("job 11 is known", func() bool {
		return n.metric(`quoin_agent_job_records{state="alive"}`)+n.metric(`quoin_agent_job_records{state="unproven"}`) == 3
	})
	if wrong := n.wrong(map[string][]string{"7": {"0"}, "10": {"2"}, "11": {"3"}}); wrong != "" {
		t.Error(wrong)
	}
	entries, err := os.ReadDir(victim)
	if err != nil || len(entries) != len(others) {
		t.Errorf("the other directory has %v, %v", entries, err)
	}
	for name, text := range others {
		info, err := os.Stat(filepath.Join(victim, name))
		got, _ := os.ReadFile(filepath.Join(victim, name))
		if err != nil || info.Mode() != 0o644 || string(got) != text {
			t.Errorf("%s: %v, %v, %q", name, info, err, got)
		}
	}
	if files, err := filepath.Glob(filepath.Join(n.maps, "[0-9]*")); err != nil || len(files) != 4 {
		t.Errorf("the mapping has %v, %v", files, err)
	}
}
