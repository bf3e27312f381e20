/** Text as Markdown code on one line, whatever backticks it holds. */
export function codeSpan(text: string): string {
  const line = joinLines(text.split(/[\r\n]+/));
  const longest = (line.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 0);
  const mark = '`'.repeat(longest + 1);
  const pad = line === '' || /^`|`$|^ .* $/.test(line) ? ' ' : '';
  return `${mark}${pad}${line}${pad}${mark}`;
}

/** With one space for each break and the blanks around it. */
function joinLines(lines: string[]): string {
  const last = lines.length - 1;
  return lines
    .map((line, index) => {
      const begun = index === 0 ? line : line.trimStart();
      return index === last ? begun : begun.trimEnd();
    })
    .filter((line, index) => line !== '' || index === 0 || index === last)
    .join(' ');
}
