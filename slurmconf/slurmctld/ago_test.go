package slurmctld

import (
	"testing"
	"time"
)

func TestAgo(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]string{-time.Second: "asked 0 s ago", 40 * time.Second: "asked 40 s ago", 119*time.Second + 900*time.Millisecond: "asked 119 s ago",
		5 * time.Minute: "asked 5 min ago", 3*time.Hour + time.Minute: "asked 3 h ago"} {
		if got := Ago(now.Add(-age), now); got != want {
			t.Errorf("%s: %q, want %q", age, got, want)
		}
	}
	if got := Ago(time.Time{}, now); got != "never answered" {
		t.Errorf("never: %q", got)
	}
}
