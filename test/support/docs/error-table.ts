import { ENGINE_ERRORS } from '../../../protocol/error.ts';
import { serverErrors } from './error-pages.ts';

/** Inserts the tables of error codes into docs/guide/errors.md. */
export function insertErrorTable(page: string): string {
  const engine = Object.entries(ENGINE_ERRORS).map(([code, meaning]) => `| \`${code}\` | ${meaning} |`);
  const server = serverErrors().map(
    ({ code, status, meaning }) => `| \`${code}\` | ${status} | ${meaning} |`,
  );
  const tables = [
    { mark: 'codes', lines: ['| code | meaning |', '| --- | --- |', ...engine] },
    { mark: 'server-codes', lines: ['| code | status | meaning |', '| --- | --- | --- |', ...server] },
  ];
  return tables.reduce((text, { mark, lines }) => {
    const place = new RegExp(`(?<=<!-- ${mark}:begin -->\\n)[\\s\\S]*?(?=<!-- ${mark}:end -->)`);
    if (!place.test(text)) throw new Error(`The page has no place for the ${mark}.`);
    return text.replace(place, () => ['', ...lines, '', ''].join('\n'));
  }, page);
}
