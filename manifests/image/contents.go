package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"strings"
	"time"
)

// spdxPackage is one thing that the image contains.
type spdxPackage struct {
	ID       string `json:"SPDXID"`
	Name     string `json:"name"`
	Version  string `json:"versionInfo"`
	Download string `json:"downloadLocation"`
	Analyzed bool   `json:"filesAnalyzed"`
}

// contents writes which Debian packages and Go modules the image has, as SPDX 2.3.
func (s *source) contents(path, name string, debian []string, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	var packages []spdxPackage
	add := func(kind, name, version string) {
		id := strings.Map(func(r rune) rune {
			if strings.ContainsRune("/_~+@:", r) {
				return '-'
			}
			return r
		}, kind+"-"+name)
		packages = append(packages, spdxPackage{ID: "SPDXRef-" + id, Name: name, Version: version, Download: "NOASSERTION"})
	}
	add("go", "github.com/quoin-hpc/quoin", s.version)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add("go", m.Path, m.Version)
	}
	add("go", "stdlib", info.GoVersion)
	for _, p := range debian {
		if parts := strings.Split(p, "_"); len(parts) == 3 {
			add("deb", parts[0], strings.ReplaceAll(parts[1], "%3a", ":"))
		}
	}
	document := map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
		"documentNamespace": "https://quoin.dev/spdx/" + name + "-" + s.commit,
		"creationInfo":      map[string]any{"created": s.time.Format(time.RFC3339), "creators": []string{"Tool: quoin-image-" + s.version}},
		"packages":          packages,
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
