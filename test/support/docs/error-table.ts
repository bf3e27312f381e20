import { ENGINE_ERRORS } from '../../../protocol/error.ts';

const PLACE = /(?<=<!-- codes:begin -->\n)[\s\S]*?(?=<!-- codes:end -->)/;

/** Inserts the table of error codes into docs/guide/errors.md. */
export function insertErrorTable(page: string): string {
  if (!PLACE.test(page)) throw new Error('The page has no place for the codes.');
  const rows = Object.entries(ENGINE_ERRORS).map(([code, meaning]) => `| \`${code}\` | ${meaning} |`);
  return page.replace(PLACE, () => ['', '| code | meaning |', '| --- | --- |', ...rows, '', ''].join('\n'));
}
