package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/rmqkit/rmqkit/provision"
	"github.com/rmqkit/rmqkit/topology"
)

// The parts of SARIF 2.1.0 that a diff needs.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
		HelpURI          string       `json:"helpUri"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifMessage      `json:"message"`
		Locations    []sarifLocation   `json:"locations,omitempty"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Properties   map[string]string `json:"properties"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
)

const (
	home    = "https://github.com/rmqkit/rmqkit"
	docDiff = home + "/blob/main/docs/diff.md"
)

func (d Diff) sarif(w *bytes.Buffer) error {
	driver := sarifDriver{Name: "rmq-provision", Version: d.Version, InformationURI: home}
	index := map[provision.ChangeCode]int{}
	for i, c := range provision.ChangeCodes() {
		index[c] = i
		driver.Rules = append(driver.Rules, sarifRule{
			ID: string(c), ShortDescription: sarifMessage{c.Meaning() + "."}, HelpURI: docDiff + "#" + string(c),
		})
	}
	run := sarifRun{Tool: sarifTool{driver}, ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	for _, f := range d.Flows {
		for _, c := range f.Changes {
			r := sarifResult{
				RuleID: string(c.Code), RuleIndex: index[c.Code], Level: levelOf(c.Verdict).sarif,
				Message:      sarifMessage{literal.Replace(d.message(f, c))},
				Fingerprints: map[string]string{"change/v1": fingerprint(f, c)},
				Properties:   map[string]string{"verdict": string(c.Verdict), "flow": f.Name},
			}
			if at, ok := d.at(c); ok {
				r.Locations = []sarifLocation{{sarifPhysical{
					Artifact: sarifArtifact{uri(at.File)}, Region: sarifRegion{at.Line, at.Column},
				}}}
			}
			run.Results = append(run.Results, r)
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}

// literal keeps a text from being taken for a link or a placeholder of SARIF.
var literal = strings.NewReplacer("[", `\[`, "]", `\]`, "{", "{{", "}", "}}")

// fingerprint is the same for the same change in another place.
func fingerprint(f provision.Flow, c provision.FlowChange) string {
	sum := sha256.Sum256([]byte(string(f.Kind) + "\x00" + f.Name + "\x00" + string(c.Code) + "\x00" + c.Summary))
	return hex.EncodeToString(sum[:16])
}

// uri returns the reference to a file: an absolute path gets a scheme, a relative one none.
func uri(file string) string {
	u := url.URL{Path: path.Clean(file)}
	if path.IsAbs(file) {
		u.Scheme = "file"
	}
	return u.String()
}

// level is how loudly a verdict is told.
type level struct{ sarif, github string }

func levelOf(v provision.Verdict) level {
	switch v {
	case provision.VerdictBreaking:
		return level{"error", "error"}
	case provision.VerdictSafe, provision.VerdictDrains:
		return level{"note", "notice"}
	}
	return level{"warning", "warning"}
}

// message is all of a change in one text.
func (d Diff) message(f provision.Flow, c provision.FlowChange) string {
	parts := append([]string{string(c.Verdict) + ": " + sentence(f, c)}, c.Details...)
	if c.Cost != "" {
		parts = append(parts, c.Cost)
	}
	for i := range parts {
		parts[i] = bare(parts[i])
	}
	if c.Policy != nil {
		parts = append(parts, policyLine(*c.Policy))
	}
	if c.New == nil && c.Old != nil {
		parts = append(parts, "was at "+place(*c.Old))
	}
	return strings.Join(parts, "; ")
}

// at returns where in the new file a change is shown; what is only in the old one is shown at the
// beginning. There is no place if the new one is not a file.
func (d Diff) at(c provision.FlowChange) (topology.Position, bool) {
	if d.NewPath == "" || c.New == nil && c.Old == nil {
		return topology.Position{}, false
	}
	at := topology.Position{Line: 1, Column: 1}
	if c.New != nil {
		at = *c.New
	}
	at.File = d.NewPath
	return at, true
}

// github writes workflow commands, which GitHub shows at the lines of a file.
func (d Diff) github(w *bytes.Buffer) {
	for _, f := range d.Flows {
		for _, c := range f.Changes {
			properties := []string{"title=" + property.Replace(string(c.Code))}
			if at, ok := d.at(c); ok {
				properties = append([]string{
					"file=" + property.Replace(path.Clean(at.File)), "line=" + strconv.Itoa(at.Line), "col=" + strconv.Itoa(at.Column),
				}, properties...)
			}
			w.WriteString("::" + levelOf(c.Verdict).github + " " + strings.Join(properties, ",") + "::" + data.Replace(d.message(f, c)) + "\n")
		}
	}
}

// The escapes of workflow commands, for their text and for their properties.
var (
	data     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
