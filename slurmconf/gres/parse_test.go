package gres

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/syntax"
)

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"Foo=1\n":                      "gres.conf:1: Foo: not allowed at the beginning of a line: want NodeName, Name or AutoDetect",
		"Name=gpu Foo=1\n":             "gres.conf:1: Foo: unknown key: want Name, Type",
		"\nName=gpu Count=x\n":         "gres.conf:2: Count: \"x\" is no count: want a number",
		"Name=gpu File=/dev/a[\n":      "gres.conf:1: File: host list",
		"Name=gpu Links=a\n":           "gres.conf:1: Links: \"a\": want one number per device",
		"AutoDetect=nvml Name=gpu\n":   "gres.conf:1: Name: not allowed after AutoDetect",
		"NodeName=n1 File=/dev/x\n":    "gres.conf:1: Name: missing: want such as Name=gpu",
		"Name=gpu Count=4 and more\n":  "gres.conf:1: \"and more\" is no Key=Value",
		"Name=gpu Type=\"\" Count=1\n": "gres.conf:1: Type: empty value",
		"Include more.conf\n":          "gres.conf:1: Include: more.conf is not read here",
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
