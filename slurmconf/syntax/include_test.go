package syntax

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// joinText joins files, and returns the lines that Scan then reads as "file:line key=value".
func joinText(t *testing.T, files map[string]string) (lines, unread []string) {
	t.Helper()
	joined, in := Join("main", []byte(files["main"]), func(file string) (string, []byte, error) {
		text, ok := files[file]
		if !ok {
			return file, nil, ErrNoFile
		}
		return file, []byte(text), nil
	})
	scanned, err := Scan("main", joined)
	if err != nil {
		file, line := in.At("main", err.Line)
		return nil, []string{fmt.Sprintf("%s:%d: no pair", file, line)}
	}
	for _, l := range scanned {
		file, line := in.At("main", l.Number)
		lines = append(lines, fmt.Sprintf("%s:%d %s=%s", file, line, l.Key, l.Value))
	}
	for _, f := range in.Unread {
		unread = append(unread, f.String())
	}
	return lines, unread
}

func TestJoin(t *testing.T) {
	for name, tt := range map[string]struct {
		files        map[string]string
		want, unread []string
	}{
		"nothing":             {map[string]string{"main": "a=1\nb=2"}, []string{"main:1 a=1", "main:2 b=2"}, nil},
		"two levels":          {map[string]string{"main": "a=1\nInclude x\nb=2\n", "x": "# x\nc=3\ninclude y\nd=4", "y": "e=5"}, []string{"main:1 a=1", "x:2 c=3", "y:1 e=5", "x:4 d=4", "main:3 b=2"}, nil},
		"twice":               {map[string]string{"main": "include x\ninclude x\na=1", "x": "b=2\n"}, []string{"x:1 b=2", "x:1 b=2", "main:3 a=1"}, nil},
		"a line that goes on": {map[string]string{"main": "include x\na=1\n", "x": "b=2 \\"}, []string{"x:1 b=2", "main:2 a=1"}, nil},
		"of two lines":        {map[string]string{"main": "z=0 \\\n y=1\nincl\\\nude x\na=1\n", "x": "b=2\n"}, []string{"main:1 z=0", "x:1 b=2", "main:5 a=1"}, nil},
		"an empty file":       {map[string]string{"main": "include x\na=1\n", "x": ""}, []string{"main:2 a=1"}, nil},
		"a comment":           {map[string]string{"main": "# include x\na=1 # include x\n"}, []string{"main:2 a=1"}, nil},
		"the cluster":         {map[string]string{"main": "ClusterName=Rig\nInclude %c.conf\n", "rig.conf": "a=1"}, []string{"main:1 ClusterName=Rig", "rig.conf:1 a=1"}, nil},
		"an error":            {map[string]string{"main": "a=1\ninclude x\n", "x": "\n\nhello\n"}, nil, []string{"x:3: no pair"}},
		"not there": {map[string]string{"main": "a=1\ninclude x\nb=2"}, []string{"main:1 a=1", "main:2 =", "main:3 b=2"},
			[]string{"main:2: fatal: x is not there: Slurm waits a minute for it and then does not start (Include); write the file, or take the line out; a name without a whole path is beside slurm.conf"}},
		"no cluster": {map[string]string{"main": "include %c\n"}, []string{"main:1 ="},
			[]string{"main:1: fatal: %c: no ClusterName stands before it in the file, which %c is: Slurm refuses the whole file (Include); write the name of the cluster in place of %c"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, unread := joinText(t, tt.files)
			if diff := cmp.Diff(tt.want, got) + cmp.Diff(tt.unread, unread); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestJoinIsBounded has files include themselves, once and twice.
func TestJoinIsBounded(t *testing.T) {
	for _, text := range []string{"include main\n", "include main\ninclude main\n"} {
		_, unread := joinText(t, map[string]string{"main": text})
		if len(unread) == 0 || !strings.Contains(unread[0], "fatal: files include each other") {
			t.Errorf("%q: %v", text, unread)
		}
	}
	_, in := Join("main", []byte("include x\n"), func(file string) (string, []byte, error) { return file, nil, errors.New("denied") })
	if len(in.Unread) != 1 || in.Unread[0].Message != "denied" {
		t.Errorf("%v", in.Unread)
	}
}

// FuzzJoin cuts a text into files. Slurm reads the same lines of both.
func FuzzJoin(f *testing.F) {
	f.Add("a=1\nb=2 c=3\n", "d=4\n", uint8(1))
	f.Add("a=1 # x\n\nb=\"2\"", "d=4 \\\n e=5", uint8(2))
	f.Fuzz(func(t *testing.T, outer, inner string, at uint8) {
		if strings.Contains(strings.ToLower(outer+inner), "include") {
			return
		}
		a, err1 := Scan("outer", []byte(outer))
		b, err2 := Scan("inner", []byte(inner))
		lines := strings.SplitAfter(outer, "\n")
		cut := int(at) % len(lines)
		before, after := strings.Join(lines[:cut], ""), strings.Join(lines[cut:], "")
		first, err3 := Scan("before", []byte(before))
		if err1 != nil || err2 != nil || err3 != nil || before != "" && !strings.HasSuffix(before, "\n") {
			return
		}
		if rest, err := Scan("after", []byte(after)); err != nil || len(first)+len(rest) != len(a) {
			return // the cut is inside a line
		}
		got, _ := joinText(t, map[string]string{"main": before + "include inner\n" + after, "inner": inner})
		var want []string
		for _, l := range a[:len(first)] {
			want = append(want, fmt.Sprintf("main:%d %s=%s", l.Number, l.Key, l.Value))
		}
		for _, l := range b {
			want = append(want, fmt.Sprintf("inner:%d %s=%s", l.Number, l.Key, l.Value))
		}
		for _, l := range a[len(first):] {
			want = append(want, fmt.Sprintf("main:%d %s=%s", l.Number+1, l.Key, l.Value))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q with %q at %d (-want +got):\n%s", outer, inner, cut, diff)
		}
	})
}
