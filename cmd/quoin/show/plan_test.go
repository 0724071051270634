package show

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

func TestBehind(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 40, 0, time.UTC)
	set := func(behind string, asked bool) *plandoc.Published {
		annotations := map[string]string{plandoc.AnnotationBehind: behind}
		if asked {
			annotations[plandoc.AnnotationAsked] = "2026-11-26T12:00:00Z"
		}
		return &plandoc.Published{Annotations: annotations}
	}
	const (
		lines  = "loaded: n[3-4]: The file was never loaded\nregistered: n1: x"
		listed = "  loaded: n[3-4]: The file was never loaded\n  registered: n1: x\n"
		first  = "behind in Slurm, by the first stage of planned, published, loaded and registered that differs"
		noted  = " (asked 40 s ago; later answers are noted only if they differ)"
	)
	for name, tt := range map[string]struct {
		set   *plandoc.Published
		asked bool
		want  string
		code  ExitCode
	}{
		"nothing is published":             {nil, true, "", Fine},
		"nobody asks":                      {&plandoc.Published{}, false, "", Fine},
		"Slurm has not answered yet":       {&plandoc.Published{}, true, "in Slurm: not known: Slurm has not answered the publisher yet\n", NotKnown},
		"Slurm never answered":             {set(plandoc.CannotAsk, false), true, "in Slurm: not known: " + plandoc.CannotAsk + "\n", NotKnown},
		"it does not answer now":           {set(plandoc.CannotAsk, true), true, "in Slurm: not known: " + plandoc.CannotAsk + ". Its last answer:\nin Slurm: all nodes are as published (asked 40 s ago)\n", NotKnown},
		"it does not, and some are behind": {set(plandoc.CannotAsk+"\n"+lines, true), true, "in Slurm: not known: " + plandoc.CannotAsk + ". Its last answer:\n" + first + " (asked 40 s ago):\n" + listed, Differs},
		"all are as published":             {set("", true), true, "in Slurm: all nodes are as published" + noted + "\n", Fine},
		"it does not say what it loaded":   {set(plandoc.LoadNotKnown, true), true, "in Slurm: not known" + noted + ": " + plandoc.LoadNotKnown + "\n", NotKnown},
		"nor does it answer now":           {set(plandoc.CannotAsk+"\n"+plandoc.LoadNotKnown, true), true, "in Slurm: not known: " + plandoc.CannotAsk + ". Its last answer:\nin Slurm: not known (asked 40 s ago): " + plandoc.LoadNotKnown + "\n", NotKnown},
		"nodes are behind":                 {set(lines, true), true, first + noted + ":\n" + listed, Differs},
		"behind, asked by others":          {set(lines, true), false, first + noted + ":\n" + listed, Differs},
	} {
		var out strings.Builder
		if code := Behind(&out, tt.set, tt.asked, now); out.String() != tt.want || code != tt.code {
			t.Errorf("%s: %v, said %q, want %v and %q", name, code, out.String(), tt.code, tt.want)
		}
	}
}
