package show

import (
	"os"
	"path/filepath"
	"testing"
)

// TestScreen holds that only a terminal gets colours.
func TestScreen(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s := NewScreen(f); s.Color || s.Width != 100 {
		t.Errorf("a file gets colours %t and %d columns, want none and 100", s.Color, s.Width)
	}
	if got, want := (Screen{Color: true}).Bold("x"), "\x1b[1mx\x1b[0m"; got != want {
		t.Errorf("bold in colour is %q, want %q", got, want)
	}
}
