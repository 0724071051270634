package gres

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// TestScanWarns has the lines without what slurmd ignores of them.
func TestScanWarns(t *testing.T) {
	for text, want := range map[string]string{
		"Name=gpu File=/dev/a Links=a\n":                       "Name=gpu File=/dev/a\nLinks=a: slurmd ignores it",
		"Name=gpu File=/dev/a Links=0\n":                       "Name=gpu File=/dev/a\nLinks=0: slurmd ignores it",
		"Name=gpu File=/dev/a AutoDetect=nvml\n":               "Name=gpu File=/dev/a\nAutoDetect=nvml has no effect on a line without NodeName",
		"NodeName=n1 File=/dev/x AutoDetect=off\nName=gpu\n":   "NodeName=n1 AutoDetect=off\nName=gpu\nthe line has no Name: slurmd ignores its devices",
		"NodeName=n1 File=/dev/x\nName=gpu Links=-1,4 Flags=a": "Name=gpu Links=-1,4 Flags=a\nthe line has no Name: slurmd ignores its devices",
	} {
		lines, found := Scan("gres.conf", []byte(text))
		written, err := Render(lines, "")
		got := string(written)
		for _, f := range found {
			got += f.Message
		}
		if err != nil || got != want || len(found) != 1 || found[0].Severity != topology.Warning {
			t.Errorf("%q: got %q, %v and %v, want %q", text, got, found, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"Foo=1\n":                      "gres.conf:1: key Foo does not begin such a line; want NodeName or Name, or AutoDetect and nothing more",
		"Name=gpu Foo=1\n":             "gres.conf:1: key Foo is not known after Name; want Name, Type",
		"\nName=gpu Count=x\n":         "gres.conf:2: Count=x is no plain number",
		"Name=gpu Count=0\n":           "gres.conf:1: Count=0 is no plain number",
		"Name=gpu File=/dev/a[\n":      "gres.conf:1: File: host list",
		"AutoDetect=nvml Name=gpu\n":   "gres.conf:1: key AutoDetect does not begin such a line",
		"Name=gpu Count=4 and more\n":  "gres.conf:1: \"and more\" is no Key=Value",
		"Name=gpu Type=\"\" Count=1\n": "gres.conf:1: key Type is empty or given twice",
		"Name=gpu Count=1 Count=2\n":   "gres.conf:1: key Count is empty or given twice",
		"Include more.conf\n":          "gres.conf:1: more.conf is included and was not looked into; put its lines into this file",
	} {
		_, err := Parse("gres.conf", []byte(text))
		var parse *syntax.ParseError
		if !errors.As(err, &parse) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q gave %v, want a ParseError beginning with %q", text, err, want)
		}
	}
}

// small keeps fuzzed host lists from growing to millions of names.
func small(data []byte) bool { return len(data) < 2000 && !fiveDigits.Match(data) }

var fiveDigits = regexp.MustCompile(`\d{5}`)

func FuzzParse(f *testing.F) {
	for _, s := range []string{"NodeName=n[001-018] Name=gpu Type=gb200 File=/dev/nvidia[0-3] Cores=0-71 Flags=nvidia_gpu_env\n", "Name=gpu MultipleFiles=/dev/a,/dev/b Links=-1,4 Count=1\n", "AutoDetect=nvidia\n", "NodeName=a AutoDetect=off\n", "Name=gpu Count=2K\nname=gpu count=1 files=/dev/x", "NodeName=x[1 Name=gpu Flags=,,a", "Name=gpu Count=18446744073709551615P", "Name=gpu Flags=explicit Count=-3\nNodeName=n[1-2],n1 Name=gpu Name=x Count=1\nNodeName=n[2 Name=gpu", "NodeName=n[1-3] AutoDetect=off\nNodeName=n2 AutoDetect=nvml,x Name=gpu File=/dev/a,/dev/a Links=-1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		first, err := Parse("gres.conf", data)
		if err != nil {
			return
		}
		text, err := Render(first, "")
		if err != nil {
			return
		}
		second, err := Parse("gres.conf", text)
		if err != nil {
			t.Fatalf("Parse of what Render wrote: %v\n%s", err, text)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("(-first +second):\n%s\nof\n%s", diff, text)
		}
	})
}
