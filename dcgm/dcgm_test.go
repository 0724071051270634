package dcgm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files returns the directory as the exporter sees it.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if IsExporterID(e.Name()) {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = string(text)
		}
	}
	return out
}

func TestMapping(t *testing.T) {
	m := Mapping{Dir: filepath.Join(t.TempDir(), "made/when/missing")}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(m.Set("12", []string{"0", "1.7"}))
	do(m.Set("12", []string{"0"})) // a requeue
	do(m.Set("9", []string{"0"}))
	want := map[string]string{"0": "12\n9\n", "1.7": "12\n"}
	if diff := cmp.Diff(want, files(t, m.Dir)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	held, err := m.Held()
	do(err)
	if diff := cmp.Diff([]string{"0", "1.7"}, held.Of("12")); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	do(m.Clear("12", []string{"0", "1.7", "3"}))
	if diff := cmp.Diff(map[string]string{"0": "9\n", "1.7": "\n"}, files(t, m.Dir)); diff != "" {
		t.Errorf("after a release (-want +got):\n%s", diff)
	}
	do(m.Clear("9", []string{"0"}))
	do(m.Clear("9", []string{"0"})) // again, as the agent may
	if diff := cmp.Diff(map[string]string{"0": "\n", "1.7": "\n"}, files(t, m.Dir)); diff != "" {
		t.Errorf("after a release of the last job (-want +got):\n%s", diff)
	}
	do(m.Set("13", []string{"1.7"}))
	if diff := cmp.Diff(map[string]string{"0": "\n", "1.7": "13\n"}, files(t, m.Dir)); diff != "" {
		t.Errorf("after the next job's start (-want +got):\n%s", diff)
	}
	if err := m.Set("12\n13", []string{"0"}); err == nil {
		t.Error("an id with a line break was taken")
	}
	if err := m.Set("12", []string{"../x"}); err == nil {
		t.Error("an exporter id with a path was taken")
	}
}

// TestMappingRepairs drops lines that would break a scrape.
func TestMappingRepairs(t *testing.T) {
	m := Mapping{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(m.Dir, "0"), []byte("7\n\n\"x\n7\n\xff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Set("8", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"0": "7\n8\n"}, files(t, m.Dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHeld reads what is labelled, and says what the exporter may fail on.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m := Mapping{Dir: filepath.Join(dir, "map")}
	check := func(step string, want Held, said string) {
		t.Helper()
		got, err := m.Held()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
		if (err == nil) != (said == "") || err != nil && !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v, want %q", step, err, said)
		}
	}
	check("no directory", Held{}, "")
	_, err := m.Sweep("b1", false)
	do(err)
	check("no directory, and it may not be made", Held{}, "")
	_, err = m.Sweep("b1", true)
	do(err)
	check("no labels", Held{Boot: "b1", Files: map[string]File{}}, "")
	for name, text := range map[string]string{"0": "\n", "1": "7\r\n8\n", "2": "7\n\n", "3": "\"x\n", "readme": "7\n"} {
		do(os.WriteFile(filepath.Join(m.Dir, name), []byte(text), 0o600))
	}
	want := Held{"b1", map[string]File{"0": {}, "1": {Jobs: []string{"7", "8"}}, "2": {[]string{"7"}, true}, "3": {Odd: true}}}
	check("lines", want, "")
	do(os.Mkdir(filepath.Join(m.Dir, "4"), 0o755))
	want.Files["4"] = File{Odd: true}
	check("a folder among the files", want, "/4 is no file")
	do(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	m.Dir = filepath.Join(dir, "file")
	check("a file in the place of the directory", Held{}, "read mapping directory")
}

// TestSweep empties the files once per boot.
func TestSweep(t *testing.T) {
	m := Mapping{Dir: filepath.Join(t.TempDir(), "map")}
	boot := ""
	sweep := func(step string, released []string, want map[string]string) {
		t.Helper()
		got, err := m.Sweep(boot, true)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(released, got); diff != "" {
			t.Errorf("%s: released (-want +got):\n%s", step, diff)
		}
		if diff := cmp.Diff(want, files(t, m.Dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(m.Set("7", []string{"0", "1.2"}))
	do(m.Set("8", []string{"1.2"}))
	do(m.Clear("7", []string{"0"}))
	sweep("boot id that cannot be read", nil, map[string]string{"0": "\n", "1.2": "7\n8\n"})
	boot = "a"
	sweep("no marker", []string{"1.2"}, map[string]string{"0": "\n", "1.2": "\n"})
	do(m.Set("9", []string{"0"}))
	sweep("same boot", nil, map[string]string{"0": "9\n", "1.2": "\n"})
	boot = "b"
	sweep("next boot", []string{"0"}, map[string]string{"0": "\n", "1.2": "\n"})
	left, err := os.ReadDir(string(m.Folder()))
	do(err)
	if len(left) != 2 || left[0].Name() != bootFile || left[1].Name() != spareFile {
		t.Errorf("the own folder holds %v, want the marker and the spare file", left)
	}
	// A file that cannot be released must not have later jobs swept.
	do(os.MkdirAll(filepath.Join(m.Dir, "3/x"), 0o755))
	boot = "c"
	if _, err := m.Sweep(boot, true); err == nil || !strings.Contains(err.Error(), "GPU 3") {
		t.Errorf("a directory among the files: error %v", err)
	}
	if released, err := m.Sweep(boot, true); released != nil || err != nil {
		t.Errorf("swept twice: %v, %v", released, err)
	}
}
