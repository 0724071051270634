package document

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// note is a document of these tests.
type note struct {
	Head
	Text string   `json:"text"`
	List []string `json:"list,omitempty" max:"2" each:"300"`
}

func (n *note) Check(key string) error {
	if n.Text == "no" {
		return errors.New(key + " is wrong")
	}
	return nil
}

func notes(t *testing.T, mode fs.FileMode) Store[note] {
	t.Helper()
	return Store[note]{Dir: filepath.Join(t.TempDir(), "made"), Kind: "Note", Mode: mode}
}

// TestPut holds the modes of new files and folders, and that an equal document is not written again.
func TestPut(t *testing.T) {
	for _, tt := range []struct {
		name         string
		mode, folder fs.FileMode
		oneLine      bool
		want         string
	}{
		{"public", Public, 0o755, false, "{\n  \"apiVersion\": \"quoin.dev/v1alpha1\",\n  \"kind\": \"Note\",\n  \"text\": \"a\"\n}\n"},
		{"private", Private, 0o750, true, `{"apiVersion":"quoin.dev/v1alpha1","kind":"Note","text":"a"}` + "\n"},
		{"own", Own, 0o755, true, `{"apiVersion":"quoin.dev/v1alpha1","kind":"Note","text":"a"}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := notes(t, tt.mode)
			s.OneLine = tt.oneLine
			path := filepath.Join(s.Dir, "k.json")
			put := func(text string) fs.FileInfo {
				t.Helper()
				if err := s.Put("k", note{Text: text}); err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(path)
				if err != nil || info.Mode() != tt.mode {
					t.Fatalf("%v, %v, want mode %s", info, err, tt.mode)
				}
				return info
			}
			first := put("a")
			if data, err := os.ReadFile(path); string(data) != tt.want || err != nil {
				t.Errorf("%s, %v, want %s", data, err, tt.want)
			}
			if !os.SameFile(first, put("a")) {
				t.Error("an equal document was written again")
			}
			if os.SameFile(first, put("b")) {
				t.Error("a document was written in place: a reader may see half of it")
			}
			if info, err := os.Stat(s.Dir); err != nil || info.Mode().Perm() != tt.folder {
				t.Errorf("folder %v, %v, want mode %s", info, err, tt.folder)
			}
		})
	}
}

// TestBounds refuses the same documents when they are written and when they are read.
func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		name string
		doc  note
		err  string // empty if the document is good
	}{
		{"good", note{Text: "a", List: []string{"b", strings.Repeat("c", 300)}}, ""},
		{"a long text", note{Text: strings.Repeat("a", topology.MaxText+1)}, "text: 257 bytes: want at most 256"},
		{"a long list", note{List: make([]string, 3)}, "list: 3 items: want at most 2"},
		{"a long item", note{List: []string{"", strings.Repeat("c", 301)}}, "list[1]: 301 bytes: want at most 300"},
		{"many bytes", note{Text: strings.Repeat("a", 200), List: []string{strings.Repeat("c", 300), strings.Repeat("c", 300)}}, "bytes: want 700 at most"},
		{"refused by its check", note{Text: "no"}, "k is wrong"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := notes(t, Public)
			s.Most = 700
			wrong := func(err error) bool {
				return (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err)
			}
			if err := s.Put("k", tt.doc); wrong(err) {
				t.Errorf("written: %v, want %q", err, tt.err)
			}
			tt.doc.Head = HeadOf("Note")
			data, err := json.MarshalIndent(tt.doc, "", "  ")
			if err := errors.Join(err, os.MkdirAll(s.Dir, 0o755), os.WriteFile(filepath.Join(s.Dir, "k.json"), data, 0o600)); err != nil {
				t.Fatal(err)
			}
			if got, _, err := s.Get("k"); wrong(err) || err == nil && !cmp.Equal(*got, tt.doc) {
				t.Errorf("read: %+v, %v, want %q", got, err, tt.err)
			}
		})
	}
}

// TestKeys lists files of documents, and no others.
func TestKeys(t *testing.T) {
	s := notes(t, Private)
	if keys, err := s.Keys(); keys != nil || err != nil {
		t.Errorf("a missing folder: %v, %v", keys, err)
	}
	if v, _, err := s.Find("7"); v != nil || err != nil {
		t.Errorf("a missing document: %v, %v", v, err)
	}
	if _, _, err := s.Get("7"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing document: %v", err)
	}
	for _, key := range []string{"7", "7@c@n"} {
		if err := s.Put(key, note{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".new-1", ".x.json", "a b.json", "7.txt"} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time it is gone already
		if err := s.Remove("7"); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := s.Keys()
	if diff := cmp.Diff([]string{"7@c@n"}, keys); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
