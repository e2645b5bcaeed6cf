//! The one form that all enums of assigned numbers have: names, the numbers behind them, and room for those unknown.

/// Declares an enum of assigned numbers with `Unknown(n)` and the conversions both ways.
macro_rules! code_points {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $number:ty {
            $($variant:ident = $code:literal $text:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $(#[doc = concat!($text, " (", $code, ").")] $variant,)*
            /// A number that this program has no name for.
            Unknown($number),
        }

        impl $name {
            /// What the number means.
            #[inline]
            pub const fn from_code(code: $number) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            /// The number on the wire.
            #[inline]
            pub const fn code(self) -> $number {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Unknown(other) => other,
                }
            }

            /// The name that the standard gives it; `unknown` where it gives none.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Unknown(_) => "unknown",
                }
            }
        }

        impl From<$number> for $name {
            #[inline]
            fn from(code: $number) -> Self {
                Self::from_code(code)
            }
        }

        impl From<$name> for $number {
            #[inline]
            fn from(value: $name) -> $number {
                value.code()
            }
        }
    };
}
