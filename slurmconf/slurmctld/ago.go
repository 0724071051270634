package slurmctld

import (
	"fmt"
	"time"
)

// Ago says for people how old an answer is, such as "asked 40 s ago".
func Ago(asked, now time.Time) string {
	if asked.IsZero() {
		return "never answered"
	}
	return "asked " + Since(asked, now)
}

// Since says for people how long ago something was, such as "40 s ago".
func Since(at, now time.Time) string {
	age := max(now.Sub(at), 0)
	switch {
	case age < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(age.Seconds()))
	case age < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(age.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(age.Hours()/24))
}
