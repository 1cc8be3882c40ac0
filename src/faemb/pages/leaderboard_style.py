"""How a leaderboard looks: a table where there is room, one card for each result on a phone."""

STYLE = """
table{width:100%;border-collapse:separate;border-spacing:0;background:var(--card);border:1px solid var(--line);
border-radius:10px;font-variant-numeric:tabular-nums}
th,td{padding:8px 12px;text-align:left;vertical-align:top;border-top:1px solid var(--line);font-weight:400}
thead th{border:0;color:var(--soft);font-size:13px;white-space:nowrap}
.number{text-align:right;white-space:nowrap}
.rank{width:1%;color:var(--soft);text-align:right}
.what{width:44%;overflow-wrap:anywhere}
.what bdi{font-weight:600}
.what small{display:block;font-size:13px}
.main{min-width:96px}
.bar{display:block;height:4px;margin-top:5px;border-radius:2px;background:var(--bar);overflow:hidden}
.bar i{display:block;height:100%;background:var(--accent)}
.better{color:var(--better)}
.worse{color:var(--worse)}
:root{--better:#0a6b3d;--worse:#a3281b}
@media (prefers-color-scheme:dark){:root{--better:#6fd3a0;--worse:#ff9d8f}}
.caution{margin:0 0 12px;padding:8px 12px;border-left:3px solid var(--accent);background:var(--card)}
a{color:inherit}
a:focus-visible,summary:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
details{margin-top:10px;background:var(--card);border:1px solid var(--line);border-radius:10px}
summary{padding:9px 12px;cursor:pointer;overflow-wrap:anywhere}
summary:target{color:var(--accent)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:4px 18px;margin:0;padding:4px 14px 14px;
font-size:14px}
dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
img{display:block;width:100%;max-width:760px;margin:0 14px 14px;border-radius:8px;background:#fff}
@media (max-width:640px){thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
table,tbody{display:block}
tr{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:8px 10px;padding:12px;
border-top:1px solid var(--line)}
tr:first-child{border-top:0}
th,td{display:block;padding:0;border:0;width:auto;min-width:0}
.number{text-align:left}
.rank{display:none}
.what{grid-column:1/-1;width:auto}
.what::before{content:attr(data-rank) ". ";color:var(--soft)}
.number::before{content:attr(data-name);display:block;color:var(--soft);font-size:12px;overflow:hidden;
text-overflow:ellipsis}
dl{grid-template-columns:minmax(0,1fr);gap:0}
dd{margin-bottom:8px}
img{width:calc(100% - 28px)}}
@media print{details,tr{break-inside:avoid}body{background:#fff}}
"""
