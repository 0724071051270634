package plandoc

import (
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// What a finding of a publication is about: its Thing.
const (
	AboutHeld  = "held"
	AboutWaits = "waits"
	AboutSlurm = "slurm"
	AboutPlan  = "plan"
)

// Findings says how the publication stands, as the publisher noted in annotations: what is held, what waits for a
// time, what Slurm has of the files by its last answer, and which plan is published.
func (s *Published) Findings(now time.Time) (all []topology.Finding) {
	add := func(about string, severity topology.Severity, message string) {
		all = append(all, topology.Finding{Subject: topology.Subject{Thing: about}, Severity: severity, Message: message})
	}
	if held := s.Annotation(AnnotationHeldReason); held != "" {
		add(AboutHeld, topology.Fatal, "changes are held: "+strings.ReplaceAll(held, "\n", "; "))
	}
	for _, wait := range Waits(s.Annotations, now) {
		add(AboutWaits, topology.OK, wait.Text(now))
	}
	asked, pending := Asked(s.Annotations), s.Annotation(AnnotationPending)
	ago := " (" + slurmctld.Ago(asked, now) + ")"
	if !strings.HasPrefix(pending, CannotAsk) {
		ago = " (" + slurmctld.Ago(asked, now) + "; later answers are noted only if they differ)"
	}
	switch {
	case pending == "" && asked.IsZero(): // nobody asks Slurm, or Slurm has not answered yet
	case pending == "":
		add(AboutSlurm, topology.OK, "all nodes are as published"+ago)
	case pending == CannotAsk:
		add(AboutSlurm, topology.Unknown, "whether Slurm has loaded the files: "+pending+ago)
	case strings.HasSuffix(pending, LoadNotKnown): // also as the last answer of a Slurm that cannot be asked now
		add(AboutSlurm, topology.Unknown, pending+ago)
	default:
		add(AboutSlurm, topology.Fatal, pending+ago)
	}
	if revision := s.Annotation(AnnotationRevision); revision == "" || s.Annotation(AnnotationSeed) != "" {
		add(AboutPlan, topology.Warning, "no plan is published yet, so no node has a place")
	} else {
		add(AboutPlan, topology.OK, "revision "+revision+" is published")
	}
	return all
}
