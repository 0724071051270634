package inputs

import (
	"regexp"
	"strings"
)

// The forms of names that Kubernetes takes, but for their lengths:
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names and .../labels.
var (
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	dnsName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	labelName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
)

// The most characters of a label of a DNS name and of a whole one.
const (
	maxDNSLabel = 63
	maxDNSName  = 253
)

// IsDNSLabel reports whether a namespace may have the name.
func IsDNSLabel(name string) bool { return len(name) <= maxDNSLabel && dnsLabel.MatchString(name) }

// IsDNSName reports whether a ConfigMap may have the name.
func IsDNSName(name string) bool { return len(name) <= maxDNSName && dnsName.MatchString(name) }

// IsLabelValue reports whether text is a label's key without a DNS name before it, or the value of a
// label that is not empty.
func IsLabelValue(text string) bool { return len(text) <= maxDNSLabel && labelName.MatchString(text) }

// wantedKey says what isLabelKey takes.
const wantedKey = "letters, digits, '-', '_' and '.', a letter or digit at both ends, 63 at most, after a DNS name and a '/' if one belongs to it"

// isLabelKey reports whether a label or an annotation may have the key.
func isLabelKey(key string) bool {
	domain, name, both := strings.Cut(key, "/")
	if !both {
		return IsLabelValue(key)
	}
	return IsDNSName(domain) && IsLabelValue(name)
}
