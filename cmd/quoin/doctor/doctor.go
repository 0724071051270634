// Package doctor says what is wrong with an installation of Quoin and with the settings of
// its neighbours, and how each fault is fixed. Of a cluster it gathers what it needs
// first, and then says what it finds without asking anybody. It changes nothing.
//
// A remedy is words, a command, or words, a colon and a command. The command ends the remedy, and runs
// in bash and in zsh as it is printed.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/quoin-hpc/quoin/topology"
)

// findings collects. What was looked at is the Thing of a finding, such as slinky or publisher.
type findings []topology.Finding

func (f *findings) ok(what, format string, args ...any) {
	f.add(topology.OK, what, "", format, args...)
}

func (f *findings) warn(what, remedy, format string, args ...any) {
	f.add(topology.Warning, what, remedy, format, args...)
}

func (f *findings) fatal(what, remedy, format string, args ...any) {
	f.add(topology.Fatal, what, remedy, format, args...)
}

func (f *findings) unknown(what, remedy, format string, args ...any) {
	f.add(topology.Unknown, what, remedy, format, args...)
}

func (f *findings) add(s topology.Severity, what, remedy, format string, args ...any) {
	*f = append(*f, topology.Finding{Subject: topology.Subject{Thing: what}, Severity: s, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// The remedies for what could not be read. moreRights is for missing rights.
const (
	moreRights = "run quoin doctor as the cluster's administrator; the ClusterRole quoin-viewer shows all but admission and permissions"
	lookAgain  = "look at the API server, and run quoin doctor again"
)

// toSee is the remedy for what an error of the API server hides.
func toSee(err error) string {
	if apierrors.IsForbidden(err) {
		return moreRights
	}
	return lookAgain
}

// joined returns the findings. All unknown findings with the same remedy of a list are one finding.
func (f findings) joined() (out findings) {
	things := map[string][]string{}
	for _, found := range f {
		if found.Severity == topology.Unknown && (found.Remedy == moreRights || found.Remedy == lookAgain) {
			things[found.Remedy] = append(things[found.Remedy], found.Thing)
		}
	}
	said := map[string]bool{}
	for _, found := range f {
		same := things[found.Remedy]
		switch {
		case found.Severity != topology.Unknown || len(same) < 2:
			out = append(out, found)
		case !said[found.Remedy]:
			said[found.Remedy] = true
			slices.Sort(same)
			out.unknown("unseen", found.Remedy, "%d things cannot be seen: %s; the first: %s", len(same), strings.Join(slices.Compact(same), ", "), found.Message)
		}
	}
	return out
}
