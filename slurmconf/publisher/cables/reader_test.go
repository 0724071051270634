package cables

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// pair is the text of one adapter on one switch.
func pair(n int) string {
	return fmt.Sprintf(`#
# Topology file: generated on Wed Aug  6 16:11:23 2025
#
vendid=0x2c9
devid=0xd2f2
sysimgguid=0x2c5eab030000%04[1]x
switchguid=0x2c5eab030000%04[1]x(2c5eab030000%04[1]x)
Switch	65 "S-2c5eab030000%04[1]x"		# "MF0;leaf%[1]d:MQM9701/U1" enhanced port 0 lid 73 lmc 0
[1]	"H-e09d73030000%04[1]x"[1](e09d73030000%04[1]x) 		# "n%[1]d mlx5_0" lid 7 4xNDR

vendid=0x2c9
devid=0x1021
sysimgguid=0xe09d73030000%04[1]x
caguid=0xe09d73030000%04[1]x
Ca	1 "H-e09d73030000%04[1]x"		# "n%[1]d mlx5_0"
[1](e09d73030000%04[1]x) 	"S-2c5eab030000%04[1]x"[1]		# lid 9 lmc 0 "MF0;leaf%[1]d:MQM9701/U1" lid 73 4xNDR
`, n)
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// said is a line for each text: its name, how many switches it has, and what is wrong.
func said(all map[string][]inputs.FabricText, entry, dir string) (out []string) {
	for _, f := range all[entry] {
		n := 0
		if f.Fabric != nil {
			n = f.Fabric.Switches()
		}
		out = append(out, strings.TrimSpace(fmt.Sprint(strings.TrimPrefix(f.Name, dir), " ", n, " ", f.Problem)))
	}
	return out
}

func TestReadDirectory(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "texts")
	put.File(t, filepath.Join(dir, "a.txt"), pair(1), 0o600)
	put.File(t, filepath.Join(dir, "b.gz"), string(packed(t, pair(2)+pair(3))), 0o600)
	put.File(t, filepath.Join(dir, ".c.txt"), "being written", 0o600)
	put.File(t, filepath.Join(dir, "..data", "d.txt"), "of a volume", 0o600)
	entry := dir + "/"
	r := NewReader([]string{entry}, nil)
	first := r.Read()
	expect := func(when string, want ...string) map[string][]inputs.FabricText {
		t.Helper()
		got := r.Read()
		if diff := cmp.Diff(want, said(got, entry, root)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		return got
	}
	same := expect("two texts", "/texts/a.txt 1", "/texts/b.gz 2")
	if first[entry][0].Fabric != same[entry][0].Fabric {
		t.Error("a text that did not change was read again")
	}
	// The same text under another time is no other fabric.
	put.File(t, filepath.Join(dir, "a.txt"), pair(1), 0o600)
	if got := r.Read(); got[entry][0].Fabric != first[entry][0].Fabric {
		t.Error("a text that was written again as it was is another fabric")
	}
	stamp := r.Stamp()
	put.File(t, filepath.Join(dir, "a.txt"), pair(1)[:400], 0o600)
	if r.Stamp() == stamp {
		t.Error("nothing says that the file has changed")
	}
	got := r.Read()
	if f := got[entry][0]; f.Fabric != first[entry][0].Fabric || f.Problem == "" || strings.Contains(f.Problem, "a.txt") {
		t.Errorf("a text that was cut: %d switches, %q", f.Fabric.Switches(), f.Problem)
	}
	put.File(t, filepath.Join(dir, "a.txt"), pair(1)+pair(4), 0o600)
	expect("written whole", "/texts/a.txt 2", "/texts/b.gz 2")
	if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	expect("one is gone", "/texts/b.gz 2", "/texts/a.txt 2 the file is gone")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	expect("all are gone", "/texts/a.txt 2 no such file or directory", "/texts/b.gz 2 no such file or directory")
	put.File(t, filepath.Join(dir, "b.gz"), string(packed(t, pair(2)+pair(3))), 0o600)
	expect("one is back", "/texts/b.gz 2", "/texts/a.txt 2 the file is gone")
}

func TestReadBounds(t *testing.T) {
	dir := t.TempDir()
	for i := range maxTexts + 1 {
		put.File(t, filepath.Join(dir, fmt.Sprintf("%03d", i)), pair(i+1), 0o600)
	}
	got := said(NewReader([]string{dir}, nil).Read(), dir, dir)
	if len(got) != maxTexts+1 || got[maxTexts-1] != "/063 1" || got[maxTexts] != "/064 0 there are more than 64 texts: no site has so many fabrics" {
		t.Errorf("%q", got[maxTexts-1:])
	}
}

// TestReadAgain opens a file that did not change after it could not be opened, because its rights may have.
func TestReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fabric.txt")
	put.File(t, path, pair(1), 0o600)
	denied := &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	s := source{name: path, stamp: "1", open: func() (io.ReadCloser, error) { return nil, denied }}
	r := NewReader(nil, nil)
	if text := r.update(&s); text.problem != fs.ErrPermission.Error() {
		t.Errorf("%+v", text)
	}
	s.open = func() (io.ReadCloser, error) { return os.Open(path) }
	if text := r.update(&s); text.problem != "" || text.fabric == nil {
		t.Errorf("%+v", text)
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fabric.txt")
	r := NewReader([]string{path, "configmaps:a=b"}, nil)
	if diff := cmp.Diff([]string{"0 no such file or directory"}, said(r.Read(), path, path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"configmaps:a=b 0 there is no Kubernetes here: give a file or a directory"}, said(r.Read(), "configmaps:a=b", "-")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	put.File(t, path, pair(1), 0o600)
	if diff := cmp.Diff([]string{"1"}, said(r.Read(), path, path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	put.File(t, path+".new", "no fabric", 0o600)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if f := r.Read()[path][0]; f.Fabric == nil || !strings.Contains(f.Problem, "line 1") {
		t.Errorf("%+v", f)
	}
}

// TestReadUnanswered: where lines are left out, a text with fewer switches leaves the last one in force.
func TestReadUnanswered(t *testing.T) {
	const timeout = "src/query_smp.c:198; Connection timed out\n"
	path := filepath.Join(t.TempDir(), "fabric.txt")
	r := NewReader([]string{path}, nil)
	for i, step := range []struct {
		name, text, want string
	}{
		{"at first", timeout + pair(1), "1"},
		{"more switches", timeout + pair(1) + pair(2), "2"},
		{"a switch did not answer", timeout + pair(1), `2 lines that are not of ibnetdiscover: 1, the first is line 1: "src/query_smp.c:198; Connection timed out"; the text has 1 switches, the last one had 2`},
		{"other switches, as many", timeout + pair(3) + pair(4), "2"},
		{"a switch has gone", pair(1), "1"},
	} {
		put.File(t, path, step.text, 0o600)
		changed := time.Unix(int64(i), 0)
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{step.want}, said(r.Read(), path, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestReadMaps reads one text from several ConfigMaps.
func TestReadMaps(t *testing.T) {
	const entry = "configmaps:quoin.dev/fabric=a"
	text := packed(t, pair(1)+pair(2))
	parts := []Part{{"p0/1", text[:100]}, {"p1/1", text[100:]}}
	var err error
	r := NewReader([]string{entry}, func(string) ([]Part, error) { return parts, err })
	expect := func(when string, switches int, problem string) {
		t.Helper()
		f := r.Read()[entry][0]
		if f.Fabric == nil || f.Fabric.Switches() != switches || (f.Problem == "") != (problem == "") || !strings.Contains(f.Problem, problem) {
			t.Errorf("%s: %+v", when, f)
		}
	}
	expect("two parts", 2, "")
	other := packed(t, pair(1)+pair(2)+pair(3))
	parts = []Part{{"p0/2", other[:120]}, parts[1]}
	expect("one part is of another text", 2, "line")
	parts = []Part{{"p0/2", other[:120]}, {"p1/2", other[120:]}}
	expect("both are", 3, "")
	parts = nil
	expect("no ConfigMap", 3, "no ConfigMap has these labels")
	err = errors.New("forbidden")
	expect("refused", 3, "forbidden")
}
