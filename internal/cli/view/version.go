package view

// Version says which build a program is.
type Version struct {
	Program  string `json:"program"`
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (v Version) text(p *printer) {
	p.printf("%s %s", v.Program, v.Version)
	if v.Commit != "" {
		p.printf(", commit %s", v.Commit)
		if v.Modified {
			p.printf(" with changes")
		}
	}
	p.printf(", %s, %s\n", v.Go, v.Platform)
}
