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

function describeAmount(input: JsonObject): string | undefined {
  const amount = readAmount(input);
  const ids = Object.keys(input).filter(name => ID.test(name));
  const id = input[ids[0] ?? ''];
  if (amount === undefined || ids.length > 1 || typeof id === 'object') return undefined;
  return ` of ${formatAmount(amount)}${id === undefined ? '' : ` for ${formatPreview(id, LONGEST)}`}`;
}

/** An amount of money. `currency`: its code, in capitals. */
type Amount = { cents: number; currency: string };

/**
 * The amount of money in an input: its only member whose name says cents, in the input's `currency`, or in USD without one.
 * `undefined` if there is none or more than one, or if the currency has no cents.
 */
function readAmount(input: JsonValue): (Amount & { name: string }) | undefined {
  if (!isJsonObject(input)) return undefined;
  const [name = '', ...others] = Object.keys(input).filter(member => AMOUNT.test(member));
  const { [name]: cents, currency = 'USD' } = input;
  if (name === '' || others.length > 0 || typeof cents !== 'number' || !Number.isSafeInteger(cents))
    return undefined;
  if (typeof currency !== 'string' || !/^[A-Za-z]{3}$/.test(currency)) return undefined;
  if (moneyIn(currency).resolvedOptions().maximumFractionDigits !== 2) return undefined;
  return { name, cents, currency: currency.toUpperCase() };
}

const moneyIn = (currency: string) => new Intl.NumberFormat('en', { style: 'currency', currency });

export const formatAmount = ({ cents, currency }: Amount): string => moneyIn(currency).format(cents / 100);

/** The sum of the amounts of several inputs; `undefined` unless each has an amount, all of one currency. */
export function sumAmounts(inputs: readonly JsonValue[]): Amount | undefined {
  const amounts = inputs.map(readAmount);
  const currency = amounts[0]?.currency ?? '';
  let cents = 0;
  for (const amount of amounts) {
    if (amount?.currency !== currency) return undefined;
    cents += amount.cents;
  }
  return currency !== '' && Number.isSafeInteger(cents) ? { cents, currency } : undefined;
}

/**
 * The values of the first inputs, which tell calls of one tool apart, an amount of money first: `$42.00 · B-2 · parcel 2 of 6`.
 */
export function describeInputs(input: JsonValue): string {
  if (!isJsonObject(input)) return formatPreview(input, LONGEST * 2);
  const amount = readAmount(input);
  const others = Object.entries(input)
    .filter(([name]) => amount === undefined || (name !== amount.name && name !== 'currency'))
    .map(([name, value]) =>
      typeof value === 'string'
        ? formatLine(value, LONGEST)
        : `${formatLine(name, LONGEST)} ${formatPreview(value, LONGEST)}`,
    );
  const shown = [...(amount === undefined ? [] : [formatAmount(amount)]), ...others];
  return [...shown.slice(0, MOST_INPUTS), ...(shown.length > MOST_INPUTS ? ['…'] : [])].join(' · ');
}

function listInputs(input: JsonObject): string {
  const members = Object.entries(input);
  if (members.length === 0) return '';
  const shown = members
    .slice(0, MOST_INPUTS)
    .map(([name, value]) => `${formatLine(name, LONGEST)} ${formatPreview(value, LONGEST)}`);
  return ` (${[...shown, ...(members.length > MOST_INPUTS ? ['…'] : [])].join(', ')})`;
}
