package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// component is one thing that an image or a package contains. url is its package URL.
type component struct{ name, version, url string }

// contents writes which Go modules the programs have, and which Debian packages are beside them, as
// SPDX 2.3. A Debian package is given as NAME_VERSION_ARCH.
func (s *source) contents(dir, name, arch string, debian []string) (path string, err error) {
	all, err := s.modules(arch)
	if err != nil {
		return "", err
	}
	for _, p := range debian {
		parts := strings.Split(p, "_")
		if len(parts) != 3 {
			return "", fmt.Errorf("the Debian package %s is not of the form NAME_VERSION_ARCH", p)
		}
		version := strings.ReplaceAll(parts[1], "%3a", ":")
		all = append(all, component{parts[0], version, "pkg:deb/debian/" + parts[0] + "@" + escape(version) + "?arch=" + parts[2]})
	}
	quoin := component{"quoin", s.version, "pkg:golang/github.com/quoin-hpc/quoin@v" + s.version}
	packages, relations := []any{spdxPackage(0, quoin)}, []any{relation("SPDXRef-DOCUMENT", "DESCRIBES", spdxID(0))}
	for i, c := range all {
		packages = append(packages, spdxPackage(i+1, c))
		relations = append(relations, relation(spdxID(0), "CONTAINS", spdxID(i+1)))
	}
	text, err := json.MarshalIndent(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
		"documentNamespace": "https://quoin.dev/spdx/" + name + "-" + s.commit,
		"creationInfo":      map[string]any{"created": s.time.Format(time.RFC3339), "creators": []string{"Tool: quoin-image-" + s.version}},
		"packages":          packages, "relationships": relations,
	}, "", "  ")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name+".spdx.json")
	return path, os.WriteFile(path, append(text, '\n'), 0o644)
}

// modules returns the Go modules that the programs say they were built of, and Go's library.
func (s *source) modules(arch string) ([]component, error) {
	var all []component
	for _, name := range []string{"quoin", "quoin-hook"} {
		info, err := buildinfo.ReadFile(s.program(arch, name))
		if err != nil {
			return nil, err
		}
		release := strings.TrimPrefix(info.GoVersion, "go")
		all = append(all, component{"stdlib", release, "pkg:golang/stdlib@" + escape(release)})
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			all = append(all, component{m.Path, m.Version, "pkg:golang/" + m.Path + "@" + escape(m.Version)})
		}
	}
	slices.SortFunc(all, func(a, b component) int { return cmp.Compare(a.url, b.url) })
	return slices.Compact(all), nil
}

// escape writes a version as a package URL has it.
func escape(version string) string {
	return strings.NewReplacer("+", "%2B", ":", "%3A").Replace(version)
}

// spdxID is the id of a component in the document.
func spdxID(i int) string { return fmt.Sprintf("SPDXRef-Package-%d", i) }

func spdxPackage(i int, c component) map[string]any {
	return map[string]any{
		"SPDXID": spdxID(i), "name": c.name, "versionInfo": c.version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
		"externalRefs": []any{map[string]string{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": c.url}},
	}
}

func relation(from, kind, to string) map[string]string {
	return map[string]string{"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to}
}
