package publisher

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// JudgeRelease compares slurmVersion with the release that runs. It returns nil if both are the same,
// or if one is not known. The finding is fatal if the release that runs would not load the files.
func JudgeRelease(p *publication.Cluster, files map[string]string) *topology.Finding {
	if p.SlurmVersion == "" || p.Seen == 0 || p.Seen == p.Release {
		return nil
	}
	f := &topology.Finding{Severity: topology.Warning, Reason: ReasonReleaseDiffers,
		Message: fmt.Sprintf("slurmVersion is %s, and Slurm %s runs", p.SlurmVersion, p.Seen),
		Remedy:  "take slurmVersion out of the configuration, so that the files follow the release that runs"}
	if why := fatal(p.LintSeen(files)); why != nil {
		f.Severity = topology.Fatal
		f.Message += ", which would not load the files: " + why.Message
	} else if len(files) > 0 {
		f.Message += ", which loads the files too"
	}
	return f
}

// tooOldForBlocks says why no files with blocks are published for the release, or returns "". A release that
// starts with no block below the base block size would not start again once a block has lost a node.
func tooOldForBlocks(p *publication.Cluster, topologies []topology.Topology) string {
	if p.Release.Does(slurmconf.EmptyUnits) || !slices.ContainsFunc(topologies, func(t topology.Topology) bool { return t.Kind == topology.KindBlock }) {
		return ""
	}
	remedy := "upgrade Slurm"
	switch {
	case p.Seen.Does(slurmconf.EmptyUnits):
		remedy = "take slurmVersion out of the configuration, because a newer Slurm runs"
	case p.SlurmVersion != "":
		remedy += " and take slurmVersion out of the configuration"
	}
	return fmt.Sprintf("block topologies need Slurm 25.05 or newer, and the files are for %s: %s; or set topology: tree, which publishes gres.conf, and the switches if any are known", p.Release, remedy)
}

// seenRelease returns the release of the Slurm that loads the files, or 0: as Slurm said last, or else
// by the image of its Controller. asking says that Slurm has neither answered nor failed since the start:
// files for another release may end slurmctld.
func (l *loop) seenRelease(snap *inputs.Snapshot) (seen slurmconf.Release, asking bool) {
	if seen, asking = l.watch.Release(); seen == 0 {
		_, controller := l.pub.Loader(snap.Controllers)
		seen = controller.Release()
	}
	return seen, asking
}

// stillDiffers returns what is held because of the release that ran, if no release is seen now: nobody knows
// whether that is over, and the files may end slurmctld. Another slurmVersion ends it.
func (l *loop) stillDiffers(doc *plandoc.Document) []plandoc.Held {
	sameKey := doc.Wanted == nil || doc.Wanted.Policy["slurmVersion"] == l.pub.SlurmVersion
	if l.pub.Seen == 0 && sameKey && slices.ContainsFunc(doc.Held, func(h plandoc.Held) bool { return h.Reason == ReasonReleaseDiffers }) {
		return doc.Held
	}
	return nil
}

// sayGuess says once that files are published for a release that nobody has seen.
func (l *loop) sayGuess() {
	if !l.pub.Guesses() {
		l.guessed.Forget()
	} else if l.guessed.IsNew(l.pub.Name) {
		l.log.Warn(fmt.Sprintf("no release of Slurm is seen: the files are for %s and newer; set slurmVersion if Slurm is older", slurmconf.Unseen), "publication", l.pub.Name)
	}
}
