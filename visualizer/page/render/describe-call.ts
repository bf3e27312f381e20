import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { formatLine, formatPreview } from './format.ts';

const MOST_INPUTS = 3;
const LONGEST = 40;

const AMOUNT = /^cents$|[a-z]Cents$|_cents$/;
const ID = /^id$|[a-z]I[dD]$|_id$/;

/** `refund of $42.00 for B-2` for an amount in cents and at most one id, else `deploy (version 2.4.0, region eu)`. */
export function describeShownCall(name: string, input: JsonValue): string {
  const tool = formatLine(name, LONGEST);
  if (!isJsonObject(input)) return `${tool} (${formatPreview(input, LONGEST)})`;
  return `${tool}${describeAmount(input) ?? listInputs(input)}`;
}

/** The values of the first inputs, which tell calls of one tool apart: `$42.00 · B-2 · parcel 2 of 6`. */
export function describeInputs(input: JsonValue): string {
  if (!isJsonObject(input)) return formatPreview(input, LONGEST);
  const members = Object.entries(input);
  const shown = members.slice(0, MOST_INPUTS).map(([name, value]) => {
    const amount =
      AMOUNT.test(name) && Number.isSafeInteger(value)
        ? formatAmount(Number(value) / 100, input.currency)
        : undefined;
    if (amount !== undefined || typeof value === 'string')
      return amount ?? formatLine(String(value), LONGEST);
    return `${formatLine(name, LONGEST)} ${formatPreview(value, LONGEST)}`;
  });
  return [...shown, ...(members.length > MOST_INPUTS ? ['…'] : [])].join(' · ');
}

function describeAmount(input: JsonObject): string | undefined {
  const amounts = Object.keys(input).filter(name => AMOUNT.test(name));
  const ids = Object.keys(input).filter(name => ID.test(name));
  const [cents, id] = [input[amounts[0] ?? ''], input[ids[0] ?? '']];
  if (amounts.length !== 1 || !Number.isSafeInteger(cents) || ids.length > 1) return undefined;
  if (typeof id === 'object') return undefined;
  const of = formatAmount(Number(cents) / 100, input.currency);
  return of === undefined
    ? undefined
    : ` of ${of}${id === undefined ? '' : ` for ${formatPreview(id, LONGEST)}`}`;
}

function formatAmount(amount: number, currency: JsonValue = 'USD'): string | undefined {
  if (typeof currency !== 'string' || !/^[A-Za-z]{3}$/.test(currency)) return undefined;
  const money = new Intl.NumberFormat('en', { style: 'currency', currency });
  return money.resolvedOptions().maximumFractionDigits === 2 ? money.format(amount) : undefined;
}

function listInputs(input: JsonObject): string {
  const members = Object.entries(input);
  if (members.length === 0) return '';
  const shown = members
    .slice(0, MOST_INPUTS)
    .map(([name, value]) => `${formatLine(name, LONGEST)} ${formatPreview(value, LONGEST)}`);
  return ` (${[...shown, ...(members.length > MOST_INPUTS ? ['…'] : [])].join(', ')})`;
}
