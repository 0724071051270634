// Package version says which release of Quoin a program is. The number is written here and
// nowhere else by hand: a test holds that the Helm chart has the same.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Number is the release, by semantic versioning.
const Number = "0.1.0"

// Info is what a program knows of its own build.
type Info struct {
	// Version is the release.
	Version string `json:"version"`
	// Revision is the commit that was built, with "-modified" if files differed from the
	// commit. Empty if the build did not record the commit.
	Revision string `json:"revision,omitempty"`
	// Go is the release of the Go compiler.
	Go string `json:"goVersion"`
	// Platform is the operating system and the architecture, such as linux/arm64.
	Platform string `json:"platform"`
}

// Get returns what the running program knows of its build.
func Get() Info {
	v := Info{Version: Number, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		v.Revision = revision(build.Settings)
	}
	return v
}

// revision returns the commit that the go command has recorded.
func revision(settings []debug.BuildSetting) string {
	commit, modified := "", false
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if modified && commit != "" {
		commit += "-modified"
	}
	return commit
}

// String is one line: the release, the commit if it is known, the compiler and the platform.
func (v Info) String() string {
	if v.Revision == "" {
		return fmt.Sprintf("%s (%s, %s)", v.Version, v.Go, v.Platform)
	}
	return fmt.Sprintf("%s (commit %s, %s, %s)", v.Version, v.Revision, v.Go, v.Platform)
}
